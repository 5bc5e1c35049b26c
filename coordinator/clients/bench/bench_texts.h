// Texts for measuring tokenisation: megabytes of English and Chinese, generated from a few paragraphs each.
//
// A Markov chain over the passage (which word, or which Chinese character, follows which) makes text that
// resembles the passage locally and repeats no sentence. One English word in twelve is a new word, a number
// or an identifier, about as many as in a few megabytes of natural text. So a cache of words does not make
// the result look better, and runs of Chinese are unique, as in books. The bytes are the same on every
// machine.
#pragma once

#include <cstddef>
#include <string>

namespace numoe::clients {

std::string EnglishText(size_t bytes);
std::string ChineseText(size_t bytes);

}  // namespace numoe::clients
