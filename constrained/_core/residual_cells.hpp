// Derivatives of residuals in tables by byte, for one long walk over the vocabulary.
//
// A walk that visits tens of thousands of trie nodes reads the same few residuals again and again. What a visit needs of the
// next residual lies side by side here; in the store it is spread over seven places. A cell costs as much as some hundred
// steps of the store, so short walks do without.
// Not thread-safe: the shard's lock guards it.
#pragma once

#include <deque>

#include "bytes_below.hpp"
#include "regex.hpp"

namespace core {

class ResidualCells {
public:
    struct Next {
        RegexId residual;    // the derivative
        uint32_t remaining;  // its minimum length; kInfinite: there is none, 0: it contains the empty text
    };
    class Cell {
        friend class ResidualCells;
        RegexId residual;
        uint32_t asked;              // how often `loops` was asked
        uint64_t loops;
        std::array<Next, 256> next;  // `kUnread` where no byte was read
    };

    explicit ResidualCells(RegexStore& regexes) : regexes_(regexes) {}

    /// Forgets all cells: ends a walk, also one that was cut off.
    void clear() {
        for (size_t i = 0; i < used_; ++i) number_of_[cells_[i].residual.value] = kNone;
        used_ = 0;
        if (cells_.size() > kKept) cells_.resize(kKept);
    }
    /// The cell of a residual; valid until `clear`.
    Cell& at(RegexId residual) {
        if (residual.value >= number_of_.size()) number_of_.resize(regexes_.size(), kNone);
        uint32_t& number = number_of_[residual.value];
        if (number == kNone) {
            number = static_cast<uint32_t>(used_++);
            if (number == cells_.size()) cells_.emplace_back();
            Cell& made = cells_[number];
            made.residual = residual;
            made.asked = 0, made.loops = 0;
            made.next.fill({kUnread, kInfinite});
        }
        return cells_[number];
    }
    const Next& read(Cell& cell, uint8_t byte) {
        Next& next = cell.next[byte];
        if (next.residual == kUnread) {
            const RegexId read = regexes_.step(cell.residual, byte);
            next = {read, regexes_.min_length(read)};
        }
        return next;
    }

    /// The groups of bytes that do not change the residual, see `BytesBelow`; none where the text may end, and none for a residual
    /// that was asked a few times.
    uint64_t loops(Cell& cell) {
        if (++cell.asked != kOften || regexes_.nullable(cell.residual)) return cell.loops;
        uint64_t changes = 0;
        for (int byte = 0; byte < 256; ++byte) {
            const uint64_t group = uint64_t{1} << BytesBelow::group(static_cast<uint8_t>(byte));
            if (changes & group || !regexes_.alphabet()[byte]) continue;
            if (read(cell, static_cast<uint8_t>(byte)).residual != cell.residual) changes |= group;
        }
        return cell.loops = ~changes;
    }

private:
    static constexpr uint32_t kOften = 64;
    static constexpr uint32_t kNone = UINT32_MAX;
    static constexpr size_t kKept = 64;  // cells for the next walk
    static constexpr RegexId kUnread{UINT32_MAX};

    RegexStore& regexes_;
    std::deque<Cell> cells_;
    size_t used_ = 0;
    std::vector<uint32_t> number_of_;  // by residual
};

}  // namespace core
