// Fills tables of counts from texts that need no vocabulary: see spec/prior.py.
//
// Thread safety: takes `Memory::lock`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "drafter.hpp"

namespace spec {

/// Words that follow a text, and how often.
using WordCounts = std::vector<std::pair<std::string, uint32_t>>;

/// What follows `opening`, a JSON text that ends in a slot, in an order of the slots of all constraints; rarest first.
void teach_slots(Memory& memory, const Retokenizer& retokenizer, uint32_t order, const std::string& opening, const WordCounts& words);

/// What follows `text`, whose first word ends at `first`, in n-grams that begin in that word; rarest first.
void teach_ngrams(Memory& memory, const Retokenizer& retokenizer, const std::string& text, size_t first, const WordCounts& words);

}  // namespace spec
