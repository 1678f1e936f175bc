// Token bytes under construction, and the vocabulary over them.
#pragma once

#include <memory>
#include <string_view>

#include "../../constrained/_core/automaton.hpp"

class TokenList {
public:
    uint32_t size() const { return static_cast<uint32_t>(offsets_.size() - 1); }
    void byte(uint8_t byte) { blob_.push_back(byte); }
    void bytes(std::string_view bytes) { blob_.insert(blob_.end(), bytes.begin(), bytes.end()); }
    /// Ends a token.
    void end() { offsets_.push_back(static_cast<int64_t>(blob_.size())); }
    /// A token that ends a text.
    void end_of_text() {
        eos_.push_back(size());
        end();
    }

    /// `limit`: bytes, as for `core::Vocabulary`.
    std::shared_ptr<core::Vocabulary> share(size_t limit, uint32_t shards) const {
        return std::make_shared<core::Vocabulary>(core::TokenBytes{blob_, offsets_}, eos_, limit, shards);
    }

private:
    std::vector<uint8_t> blob_;
    std::vector<int64_t> offsets_{0};
    std::vector<uint32_t> eos_;
};
