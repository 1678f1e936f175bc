// Tables derived from the tokens alone: their bytes, the trie and the byte class trie, as views of one table file.
//
// Thread safety: immutable, but for what is made when it is first asked for. The table file is private memory or a file mapped by several processes.
#pragma once

#include "table_file.hpp"
#include "byte_class_trie.hpp"
#include "trie.hpp"

namespace core {

class VocabularyTables {
public:
    /// Excludes tokens without bytes and tokens with a byte that is not a token by itself. Without them, every allowed
    /// prefix can be completed one byte at a time.
    static TableFile build(const TokenBytes& tokens, const std::vector<uint32_t>& eos) {
        const std::vector<uint32_t> spelled = spelled_tokens(tokens, spelled_bytes(tokens));
        const Trie::Arrays trie = Trie::build(tokens, spelled);
        const ByteClassTrie::Arrays byte_class_trie = ByteClassTrie::build(tokens, spelled, Trie(trie));
        const std::vector<uint32_t> longest{trie.longest, byte_class_trie.folded.longest};
        TableFile::Writer table_file;
        table_file.add(tokens.blob);
        table_file.add(tokens.offsets);
        table_file.add(eos);
        table_file.add(longest);
        for (const Trie::Arrays* arrays : {&trie, &byte_class_trie.folded}) {
            table_file.add(arrays->nodes);
            table_file.add(arrays->bytes);
            table_file.add(arrays->deepest);
            table_file.add(arrays->order);
        }
        table_file.add(byte_class_trie.members_begin);
        table_file.add(byte_class_trie.members);
        return table_file.finish();
    }

    /// Whether the table file was built from these tokens.
    static bool built_from(const TableFile& table_file, const TokenBytes& tokens, const std::vector<uint32_t>& eos) {
        return std::ranges::equal(table_file.section<uint8_t>(0), tokens.blob) &&
               std::ranges::equal(table_file.section<int64_t>(1), tokens.offsets) && std::ranges::equal(table_file.section<uint32_t>(2), eos);
    }

    /// Views of a table file that `build` returned. Throws BadTableFile.
    explicit VocabularyTables(TableFile held)
        : table_file(std::move(held)),
          tokens{table_file.section<uint8_t>(0), table_file.section<int64_t>(1)},
          size(tokens.size()),
          eos(table_file.section<uint32_t>(2).begin(), table_file.section<uint32_t>(2).end()),
          alphabet(spelled_bytes(tokens)),
          trie(trie_at(0)),
          byte_class_trie(trie_at(1), table_file.section<uint32_t>(12), table_file.section<uint32_t>(13)) {}

    const TableFile table_file;
    const TokenBytes tokens;
    const uint32_t size;
    const std::vector<uint32_t> eos;
    const ByteSet alphabet;  // bytes that are a token by themselves
    const Trie trie;
    const ByteClassTrie byte_class_trie;

private:
    Trie trie_at(size_t which) const {
        const size_t at = 4 + 4 * which;
        const auto nodes = table_file.section<Trie::Node>(at);
        const auto bytes = table_file.section<uint8_t>(at + 1);
        if (table_file.section<uint32_t>(3).size() != 2 || nodes.size() != bytes.size() + 1) throw BadTableFile("another layout");
        return {nodes, bytes, table_file.section<uint16_t>(at + 2), table_file.section<uint32_t>(at + 3), table_file.section<uint32_t>(3)[which]};
    }
    static ByteSet spelled_bytes(const TokenBytes& tokens) {
        ByteSet bytes;
        for (uint32_t token = 0; token < tokens.size(); ++token) {
            if (tokens[token].size() == 1) bytes.set(tokens[token][0]);
        }
        return bytes;
    }
    static std::vector<uint32_t> spelled_tokens(const TokenBytes& tokens, const ByteSet& alphabet) {
        std::vector<uint32_t> spelled;
        for (uint32_t token = 0; token < tokens.size(); ++token) {
            const auto bytes = tokens[token];
            const bool all = std::ranges::all_of(bytes, [&](uint8_t byte) { return alphabet[byte]; });
            if (!bytes.empty() && all) spelled.push_back(token);
        }
        return spelled;
    }
};

}  // namespace core
