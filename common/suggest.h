// Suggests what a misspelt word was meant to be.
#ifndef COMERA_COMMON_SUGGEST_H_
#define COMERA_COMMON_SUGGEST_H_

#include <string>
#include <vector>

namespace comera {

// The element of `choices` nearest to `word`; "" if none is near enough.
std::string Nearest(const std::string& word,
                    const std::vector<std::string>& choices);

// Returns " (did you mean `x`?)", or "" without a suggestion.
std::string DidYouMean(const std::string& word,
                       const std::vector<std::string>& choices);

}  // namespace comera

#endif  // COMERA_COMMON_SUGGEST_H_
