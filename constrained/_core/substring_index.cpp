#include "substring_index.hpp"

#include <numeric>
#include <stdexcept>

namespace core {

namespace {

struct Reader {
    std::span<const uint8_t> bytes;
    size_t at = 0;

    std::span<const uint8_t> take(size_t size) {
        if (size > bytes.size() - at) throw std::invalid_argument("malformed grammar: a document");
        at += size;
        return bytes.subspan(at - size, size);
    }
    uint32_t number() {
        const auto four = take(4);
        return four[0] | uint32_t{four[1]} << 8 | uint32_t{four[2]} << 16 | uint32_t{four[3]} << 24;
    }
};

constexpr uint32_t kMaxSpelling = 64;
constexpr uint32_t kInside = 1u << 31;  // of a packed symbol: no text begins or ends before it

enum Ends : uint32_t { Anywhere, OutsideWords, BetweenChunks };

}  // namespace

SubstringIndex::SubstringIndex(std::span<const uint8_t> packed, const std::bitset<256>& alphabet)
    : packed_(packed.begin(), packed.end()) {
    Reader reader{packed};
    const uint32_t length = reader.number();
    symbols_ = reader.number(), spaces_ = reader.number(), words_ = reader.number(), space_ = reader.number();
    least_ = reader.number();
    const uint32_t ends = reader.number();
    whole_words_ = ends != Anywhere;
    const uint32_t count = reader.number();
    if (spaces_ > symbols_ || words_ > symbols_ || (spaces_ > 0 && space_ >= spaces_) || ends > BetweenChunks) throw std::invalid_argument("malformed grammar: a document");
    std::vector<std::pair<uint32_t, std::vector<uint8_t>>> spellings;
    std::vector<bool> spelled(symbols_);
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t symbol = reader.number(), size = reader.number();
        const auto bytes = reader.take(size);
        if (symbol >= symbols_ || size == 0 || size > kMaxSpelling) throw std::invalid_argument("malformed grammar: a document");
        if (!std::ranges::all_of(bytes, [&](uint8_t byte) { return alphabet[byte]; })) continue;
        spelled[symbol] = true;
        spellings.emplace_back(symbol, std::vector<uint8_t>(bytes.begin(), bytes.end()));
    }
    text_.resize(length);
    std::vector<bool> inside(length + 1);  // of a word or chunk, by position
    for (uint32_t i = 0; i < length; ++i) {
        uint32_t& symbol = text_[i];
        symbol = reader.number();
        if (ends == BetweenChunks) inside[i] = i > 0 && (symbol & kInside), symbol &= ~kInside;
        if (symbol >= symbols_) throw std::invalid_argument("malformed grammar: a document");
        if (!spelled[symbol]) symbol = symbols_;  // above all others: no text contains it
    }
    build_spellings(std::move(spellings));
    if (ends == OutsideWords) remove_unspelled();
    if (ends == BetweenChunks) {
        words_ = kNone;  // no symbol decides whether a text may end
        for (uint32_t i = 0, end = 0; i < length; i = end) {  // as `remove_unspelled`
            bool whole = true;
            do whole &= text_[end] < symbols_;
            while (inside[++end]);
            if (!whole) std::fill(text_.begin() + i, text_.begin() + end, symbols_);
        }
    }
    starts_.assign(length + 1, 0);
    std::vector<uint32_t> shortest(symbols_ + 1, 0);
    for (uint32_t symbol = 0; symbol < symbols_; ++symbol) {
        for (const Spelling& spelling : this->spellings(symbol)) {
            if (!shortest[symbol] || spelling.length < shortest[symbol]) shortest[symbol] = spelling.length;
            longest_spelling_ = std::max(longest_spelling_, spelling.length);
        }
    }
    for (uint32_t i = 0; i < length; ++i) starts_[i + 1] = starts_[i] + shortest[text_[i]];
    if (whole_words_) {
        word_ends_.assign(length + 1, length);
        for (uint32_t i = length; i-- > 0;) {
            inside[i] = inside[i] || (i > 0 && text_[i] >= words_ && text_[i] < symbols_ && text_[i - 1] >= words_ && text_[i - 1] < symbols_);
            word_ends_[i] = inside[i] ? word_ends_[i + 1] : i;
            longest_word_ = std::max(longest_word_, starts_[word_ends_[i]] - starts_[i]);
        }
    }
    sort_suffixes();
}

/// A word of which a character has no spelling cannot be read to its end, so none of it is.
void SubstringIndex::remove_unspelled() {
    const auto in_word = [&](uint32_t symbol) { return symbol >= words_; };
    for (uint32_t i = 0; i < size();) {
        uint32_t end = i;
        bool whole = true;
        for (; end < size() && in_word(text_[end]); ++end) whole &= text_[end] < symbols_;
        if (!whole) std::fill(text_.begin() + i, text_.begin() + end, symbols_);
        i = std::max(end, i + 1);
    }
}

/// Prefix doubling (Manber and Myers 1993); as in Larsson and Sadakane 1999 only groups of equal prefixes are sorted again.
void SubstringIndex::sort_suffixes() {
    const uint32_t length = size();
    std::vector<uint32_t> order(length), rank(length + 1), places(length);
    std::iota(order.begin(), order.end(), 0);
    std::vector<uint32_t> count(symbols_ + 2, 0);
    for (const uint32_t symbol : text_) ++count[symbol + 1];
    std::partial_sum(count.begin(), count.end(), count.begin());
    std::vector<uint32_t> next(count.begin(), count.end() - 1);
    for (uint32_t i = 0; i < length; ++i) order[next[text_[i]]++] = i;
    // The rank of a group is the place of its last member plus one; 0 stands for the end of the document.
    for (uint32_t i = 0; i < length; ++i) rank[i] = count[text_[i] + 1];
    rank[length] = 0;
    std::vector<std::pair<uint32_t, uint32_t>> groups, kept;  // of more than one suffix
    for (uint32_t symbol = 0; symbol <= symbols_; ++symbol) {
        if (count[symbol + 1] - count[symbol] > 1) groups.emplace_back(count[symbol], count[symbol + 1]);
    }
    std::vector<std::pair<uint32_t, uint32_t>> keyed;  // rank of what follows, suffix
    for (uint64_t read = 1; !groups.empty(); read *= 2) {
        kept.clear();
        // Ranks must not change while groups of this round are compared by them: they are written afterwards.
        std::vector<std::pair<uint32_t, uint32_t>> fresh;
        for (const auto& [begin, end] : groups) {
            keyed.clear();
            for (uint32_t i = begin; i < end; ++i) {
                const uint64_t after = order[i] + read;
                keyed.emplace_back(after < length ? rank[after] : 0, order[i]);
            }
            std::ranges::sort(keyed);
            for (uint32_t i = begin; i < end; ++i) order[i] = keyed[i - begin].second;
            for (uint32_t i = begin; i < end;) {
                uint32_t stop = i + 1;
                while (stop < end && keyed[stop - begin].first == keyed[i - begin].first) ++stop;
                for (uint32_t j = i; j < stop; ++j) fresh.emplace_back(order[j], stop);
                if (stop - i > 1) kept.emplace_back(i, stop);
                i = stop;
            }
        }
        for (const auto& [suffix, value] : fresh) rank[suffix] = value;
        groups.swap(kept);
    }
    // Texts begin where enough symbols follow; with whole words, not inside one.
    std::vector<uint32_t> readable(length + 1, 0);
    for (uint32_t i = length; i-- > 0;) readable[i] = text_[i] < symbols_ ? readable[i + 1] + 1 : 0;
    for (const uint32_t suffix : order) {
        if (readable[suffix] < std::max(least_, 1u)) continue;
        if (whole_words_ && word_end(suffix) != suffix) continue;
        suffixes_.push_back(suffix);
    }
    suffixes_.shrink_to_fit();
    buckets_.assign(symbols_ + 2, 0);
    for (const uint32_t suffix : suffixes_) ++buckets_[text_[suffix] + 1];
    std::partial_sum(buckets_.begin(), buckets_.end(), buckets_.begin());
}

void SubstringIndex::build_spellings(std::vector<std::pair<uint32_t, std::vector<uint8_t>>> spellings) {
    std::ranges::sort(spellings);
    spellings_of_.assign(symbols_ + 1, 0);
    for (const auto& [symbol, bytes] : spellings) {
        spellings_.push_back({symbol, static_cast<uint32_t>(blob_.size()), static_cast<uint32_t>(bytes.size())});
        blob_.insert(blob_.end(), bytes.begin(), bytes.end());
        ++spellings_of_[symbol + 1];
    }
    std::partial_sum(spellings_of_.begin(), spellings_of_.end(), spellings_of_.begin());
    std::vector<uint32_t> order(spellings_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
        return std::ranges::lexicographical_compare(bytes_of(spellings_[a]), bytes_of(spellings_[b]));
    });
    ranks_.resize(order.size());
    for (uint32_t i = 0; i < order.size(); ++i) ranks_[order[i]] = i;
    nodes_.push_back({0, 0, static_cast<uint32_t>(order.size()), kNone, 0, 0, 0});
    for (uint32_t node = 0; node < nodes_.size(); ++node) {
        const Node here = nodes_[node];
        nodes_[node].first_child = nodes_[node].last_child = static_cast<uint32_t>(nodes_.size());
        if (here.end == here.begin) continue;
        const Spelling& first = spellings_[order[here.begin]];
        if (first.length == here.depth) {
            if (here.end - here.begin > 1) throw std::invalid_argument("malformed grammar: a spelling is a prefix of another");
            nodes_[node].symbol = first.symbol;
            continue;
        }
        for (uint32_t i = here.begin; i < here.end;) {
            const uint8_t byte = bytes_of(spellings_[order[i]])[here.depth];
            uint32_t stop = i + 1;
            while (stop < here.end && bytes_of(spellings_[order[stop]])[here.depth] == byte) ++stop;
            nodes_.push_back({here.depth + 1, i, stop, kNone, 0, 0, byte});
            i = stop;
        }
        nodes_[node].last_child = static_cast<uint32_t>(nodes_.size());
    }
}

bool SubstringIndex::start(std::vector<Cursor>& out) const {
    if (suffixes_.empty()) return false;
    out.push_back({0, static_cast<uint32_t>(suffixes_.size()), 0});
    return true;
}

uint32_t SubstringIndex::child(uint32_t node, uint8_t byte) const {
    const auto begin = nodes_.begin() + nodes_[node].first_child, end = nodes_.begin() + nodes_[node].last_child;
    const auto at = std::lower_bound(begin, end, byte, [](const Node& child, uint8_t value) { return child.byte < value; });
    return at != end && at->byte == byte ? static_cast<uint32_t>(at - nodes_.begin()) : kNone;
}

bool SubstringIndex::may_end(const Cursor& cursor) const {
    if (!whole_words_) return true;
    if (words_ == kNone) {
        bool possible = false;
        for_each_position(cursor, [&](uint32_t next) { possible |= word_ends_[next] == next; });
        return possible;
    }
    const uint32_t next = cursor.hi ? position(cursor.lo, cursor.depth) : cursor.lo;  // the smallest symbol comes first
    if (next == 0) return true;
    return word_ends_[next] == next || text_[next] == symbols_;
}

uint32_t SubstringIndex::min_length(const Cursor& cursor, uint32_t missing) const {
    const auto from = [&](uint32_t position) {
        const uint64_t read = uint64_t{position} + missing;
        if (read > size()) return kInfinite;
        return starts_[word_end(static_cast<uint32_t>(read))] - starts_[position];
    };
    if (missing == 0 && !whole_words_) return 0;
    if (cursor.hi == 0) return from(cursor.lo);
    uint32_t shortest = kInfinite;
    for (uint32_t rank = cursor.lo; rank < cursor.hi; ++rank) shortest = std::min(shortest, from(position(rank, cursor.depth)));
    return shortest;
}

size_t SubstringIndex::bytes() const {
    return sizeof *this + packed_.capacity() + blob_.capacity() +
           4 * (text_.capacity() + suffixes_.capacity() + buckets_.capacity() + starts_.capacity() + word_ends_.capacity() +
                spellings_of_.capacity() + ranks_.capacity()) +
           spellings_.capacity() * sizeof(Spelling) + nodes_.capacity() * sizeof(Node);
}

}  // namespace core
