#ifndef COMERA_TESTS_WORKER_TRAINER_DATA_GZIP_H_
#define COMERA_TESTS_WORKER_TRAINER_DATA_GZIP_H_

#include <string>

#include "gtest/gtest.h"
#include "zlib.h"

namespace comera::trainer {

// `text` as one gzip member.
inline std::string Gzip(std::string text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8,
                         Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<unsigned char*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<unsigned char*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace comera::trainer

#endif  // COMERA_TESTS_WORKER_TRAINER_DATA_GZIP_H_
