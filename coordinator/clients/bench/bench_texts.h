// Texts to measure tokenisation with: megabytes of English and Chinese from a few paragraphs each.
//
// A chain over the passage (which word, or which Chinese character, follows which) makes text that reads
// locally like the passage and repeats no sentence; one English word in twelve is a new one, a number or an
// identifier, about what a few megabytes of natural text have. So no cache of words flatters, and runs of
// Chinese are unique as they are in books. The same bytes on every machine.
#pragma once

#include <cstddef>
#include <string>

namespace numoe::clients {

std::string EnglishText(size_t bytes);
std::string ChineseText(size_t bytes);

}  // namespace numoe::clients
