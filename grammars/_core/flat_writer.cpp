#include "flat_writer.hpp"

#include <algorithm>
#include <cstring>

namespace schemas {

int32_t FlatWriter::called(ExprNode node) const {
    while (exprs_[node].op == flat::Op::Choice) {
        const std::span parts(expr_args_.data() + exprs_[node].a, exprs_[node].b);
        const bool scalars = std::ranges::any_of(parts, [&](ExprNode part) {
            return exprs_[part].op == flat::Op::Terminal || (exprs_[part].op == flat::Op::Leaf && !suffices_.contains(part));
        });
        if (scalars) return -1;
        node = parts[0];
    }
    const auto known = suffices_.find(node);
    return known != suffices_.end() ? known->second : only_called(node);
}

nb::bytes FlatWriter::pack(std::span<const ExprNode> rules, int32_t start, int32_t shift) {
    if (shift) {
        for (flat::Node& node : exprs_) {
            if (node.op == flat::Op::Call) node.a += shift;
        }
    }
    const auto count = [](const auto& list) { return static_cast<int32_t>(list.size()); };
    const flat::PackedHeader header{count(regexes_),   count(exprs_), count(regex_args_), count(expr_args_),
                                    count(rules), start,         count(bytes_)};
    std::string packed;
    const auto put = [&](const void* data, size_t size) { packed.append(static_cast<const char*>(data), size); };
    const auto put_all = [&](const auto& list) { put(list.data(), list.size() * sizeof(list[0])); };
    packed.reserve(sizeof header + 16 * (regexes_.size() + exprs_.size()) + 4 * (regex_args_.size() + expr_args_.size() + rules.size()) + bytes_.size());
    put(&header, sizeof header);
    put_all(regexes_), put_all(exprs_), put_all(regex_args_), put_all(expr_args_), put_all(rules), put_all(bytes_);
    return nb::bytes(packed.data(), packed.size());
}

}  // namespace schemas
