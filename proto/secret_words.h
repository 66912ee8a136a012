#ifndef COMERA_PROTO_SECRET_WORDS_H_
#define COMERA_PROTO_SECRET_WORDS_H_

#include <string_view>

namespace comera {

// Whether a label of this name is likely to hold a secret, such as
// "db_password" or "API-Token". Words that only begin like one, such as
// "tokenizer" and "tokens", do not count.
bool NamesSecret(std::string_view name);

// Whether the text itself looks like a secret: a token of this service, or a
// private key.
bool LooksLikeSecret(std::string_view text);

}  // namespace comera

#endif  // COMERA_PROTO_SECRET_WORDS_H_
