#ifndef COMERA_PROTO_SECRET_WORDS_H_
#define COMERA_PROTO_SECRET_WORDS_H_

#include <string_view>

namespace comera {

// Whether a label of this name is likely to hold a secret: "db_password",
// "API-Token". Words that merely begin like one, such as "tokenizer" and
// "tokens", are none.
bool NamesSecret(std::string_view name);

// Whether the text itself looks like one: a token of this service, or a private
// key.
bool LooksLikeSecret(std::string_view text);

}  // namespace comera

#endif  // COMERA_PROTO_SECRET_WORDS_H_
