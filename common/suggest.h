// "Did you mean ...?"
#ifndef COMERA_COMMON_SUGGEST_H_
#define COMERA_COMMON_SUGGEST_H_

#include <string>
#include <vector>

namespace comera {

// The choice nearest to `word`, "" if none is near enough to be meant.
std::string Nearest(const std::string& word,
                    const std::vector<std::string>& choices);

// " (did you mean `x`?)", or "".
std::string DidYouMean(const std::string& word,
                       const std::vector<std::string>& choices);

}  // namespace comera

#endif  // COMERA_COMMON_SUGGEST_H_
