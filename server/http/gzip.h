#ifndef COMERA_SERVER_HTTP_GZIP_H_
#define COMERA_SERVER_HTTP_GZIP_H_

#include <string>
#include <string_view>

namespace comera::server {

// The bytes as Content-Encoding: gzip has them. `level`: zlib's, 1 (fast) to 9.
// Empty if that fails for want of memory.
std::string Gzip(std::string_view bytes, int level);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_GZIP_H_
