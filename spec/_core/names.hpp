// Draft source `names`: the member names that the schema declares for the open object. Proposed in the order of the schema,
// those behind the last member first; a name behind a required one that is still missing is less likely.
//
// Thread safety: not thread-safe; `Memory::lock` guards the index of a constraint.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "context_counts.hpp"
#include "continuations.hpp"
#include "draft_context.hpp"
#include "retokenizer.hpp"

namespace spec {

class MemberNames {
public:
    /// (a name with its quotes, whether the member is required), in the order of the schema.
    using Members = std::vector<std::pair<std::string, bool>>;

    /// The members of the object that a JSON text opens with its last byte.
    void set(std::string_view opening, Members members);
    /// The names that can still come in the present object, the nearest to the last one first.
    void propose(const Retokenizer& retokenizer, const DraftContext& context, const Layout& layout, std::vector<DraftToken>& out) const;

private:
    static constexpr size_t kMost = 8;

    static uint64_t object_of(const JsonPath& path);

    struct Object {
        Members members;
        std::vector<uint64_t> hashes;  // of the names
    };
    std::unordered_map<uint64_t, Object, IdentityHash> objects_;
};

}  // namespace spec
