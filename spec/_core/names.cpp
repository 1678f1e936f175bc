#include "names.hpp"

#include <algorithm>

namespace spec {

uint64_t MemberNames::object_of(const JsonPath& path) {
    uint64_t key = path.depth;
    for (uint32_t i = 0; i < path.depth; ++i) key = mix(key, path.names[i]);
    return key;
}

void MemberNames::set(std::string_view opening, Members members) {
    JsonPath path;
    path.read(opening);
    Object& object = objects_[object_of(path)];
    object.hashes.clear();
    for (const auto& member : members) object.hashes.push_back(JsonPath::name_hash(member.first));
    object.members = std::move(members);
}

void MemberNames::propose(const Retokenizer& retokenizer, const DraftContext& context, const Layout& layout, std::vector<DraftToken>& out) const {
    const JsonPath& path = context.path;
    if (path.kind != JsonPath::kKey || path.escaped) return;
    const auto found = objects_.find(object_of(path));
    if (found == objects_.end()) return;
    const auto& [members, hashes] = found->second;
    std::string_view written = path.partial();
    std::string before;
    if (!path.quoted) {
        if (written.empty()) return;
        const char usual = layout.after[written[0] == '{' ? Layout::kBrace : Layout::kComma];
        if (written.size() == 1 && usual == '\n') return;  // how far lines are indented is not known
        if (written.size() == 1 && usual == ' ') before = " ";
        written = {};
    }
    size_t next = 0;
    if (path.name) {
        const auto last = std::find(hashes.begin(), hashes.end(), path.name);
        if (last != hashes.end()) next = static_cast<size_t>(last - hashes.begin()) + 1;
    }
    const bool follows = next > 0 || !path.name;
    const size_t begin = out.size();
    bool passed = false;  // a required member
    for (size_t i = next; i < members.size() && out.size() - begin < kMost; ++i) {
        const auto& [name, required] = members[i];
        const bool skips = passed;
        passed |= required;
        if (!std::string_view(name).starts_with(written)) continue;
        std::string ahead = before + name.substr(written.size()) + ":";
        if (layout.after[Layout::kColon] == ' ') ahead += ' ';
        const auto token = retokenizer.next(context.text.view(), ahead);
        if (!token) continue;
        const auto known = [&](const DraftToken& draft_token) { return draft_token.token == token->token; };
        if (std::any_of(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(), known)) continue;
        const auto rank = static_cast<uint32_t>(std::min<size_t>(i - next, 7));
        const uint32_t inside = written.size() > 1;
        const uint32_t kind = (((rank * 2 + required) * 2 + skips) * 2 + follows) * 2 + inside;
        out.push_back({token->token, (skips ? 0.05 : 0.4) / (rank + 1), kind});
    }
}

}  // namespace spec
