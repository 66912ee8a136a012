// Compresses bodies with zlib.
#include "server/http/gzip.h"

#include <zlib.h>

#include <limits>

namespace comera::server {
namespace {

// Added to the window's size, this asks zlib for gzip's header and trailer.
constexpr int kGzipFormat = 16;
constexpr int kMemoryLevel = 8;

}  // namespace

std::string Gzip(std::string_view bytes, int level) {
  if (bytes.size() > std::numeric_limits<uInt>::max()) return "";
  z_stream stream = {};
  if (deflateInit2(&stream, level, Z_DEFLATED, MAX_WBITS + kGzipFormat,
                   kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK) {
    return "";
  }
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(result == Z_STREAM_END ? stream.total_out : 0);
  deflateEnd(&stream);
  return out;
}

}  // namespace comera::server
