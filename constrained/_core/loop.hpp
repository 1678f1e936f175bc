// The tokens of C*, for a prefix-free language C: by copies begun, and the places where they leave it.
//
// Nearly every long text of a structured document is such a loop: the characters of a string, the digits of a number.
// What is here depends on C and the vocabulary alone, so all strings share it, whatever bounds or words they add.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "quotient.hpp"
#include "regex.hpp"
#include "rows.hpp"
#include "trie.hpp"

namespace core {

class Loop {
public:
    using Run = std::span<const uint32_t>;
    /// A trie node that is reached by a byte that begins no copy, after at least one copy.
    struct Way {
        uint32_t node;
        uint32_t copies;  ///< before it
    };
    /// Tokens that leave the loop by one byte, as a trie of their own.
    struct Leaving {
        explicit Leaving(Trie::Arrays made) : arrays(std::move(made)), trie(arrays), nodes(trie.size(), Trie::kRoot) {}

        Trie::Arrays arrays;
        Trie trie;
        std::vector<uint32_t> nodes;  ///< the same place in the trie of all tokens
    };
    /// Atoms that a residual does not take apart, by residual.
    using Uniform = std::function<const ByteSet&(RegexId)>;

    /// `bytes` is told what the loop takes, now and later.
    Loop(RegexId part, const TokenBytes& tokens, const Trie& trie, const Quotient& quotient, RegexStore& regexes,
         const Uniform& uniform, size_t& bytes);

    /// Most copies that a token of C* begins.
    uint32_t top() const { return static_cast<uint32_t>(begun_.size() - 1); }
    /// Bound on the shortest rest of a begun copy, in bytes.
    uint32_t worst_rest() const { return worst_rest_; }
    /// The tokens that begin at most so many copies and do not leave the loop. The set lives as long as the loop.
    const TokenSet& up_to(uint32_t copies);
    const TokenSet& inside() { return up_to(top()); }
    /// Where tokens go on with a byte that begins no copy.
    const std::vector<Way>& onward(uint8_t byte) const { return onward_[byte]; }
    /// The tokens that begin with any text of C*, then this byte, which begins no copy.
    const Leaving& leaving(uint8_t byte);

private:
    struct Place {
        RegexId rest;     // of the copy that was begun; empty between copies
        uint32_t copies;  // begun so far
    };
    Place step(const Place& place, uint8_t byte);
    const ByteSet& first(const Place& place);
    void allow(Run run, const Place& place);
    void walk_below(uint32_t top, const Place& start);

    const TokenBytes& tokens_;
    const Trie& trie_;
    RegexStore& regexes_;
    RegexId part_;
    std::vector<std::vector<Run>> begun_{1};  // by copies begun
    std::array<std::vector<Way>, 256> onward_;
    std::array<std::unique_ptr<Leaving>, 256> leaving_;
    std::vector<std::unique_ptr<TokenSet>> up_to_;
    size_t inside_count_ = 0;
    uint32_t worst_rest_ = 0;
    size_t& bytes_;
};

}  // namespace core
