// "Did you mean ...?"
#ifndef COMERA_CLIENT_SUGGEST_H_
#define COMERA_CLIENT_SUGGEST_H_

#include <string>
#include <vector>

namespace comera::client {

// The choice nearest to `word`, "" if none is near enough to be meant.
std::string Nearest(const std::string& word,
                    const std::vector<std::string>& choices);

// " (did you mean `x`?)", or "".
std::string DidYouMean(const std::string& word,
                       const std::vector<std::string>& choices);

}  // namespace comera::client

#endif  // COMERA_CLIENT_SUGGEST_H_
