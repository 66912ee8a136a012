// Recognises file formats that hold no text lines, by their first bytes.
#include "worker/trainer/data/source/foreign_format.h"

#include "absl/strings/match.h"

namespace comera::trainer {
namespace {

struct Format {
  absl::string_view magic;
  absl::string_view advice;
};

// No text begins so, but for an improbable one.
constexpr Format kFormats[] = {
    {"\xfd"
     "7zXZ",
     "an xz file, which is not read; pack it with gzip or zstd instead"},
    {"BZh91AY&SY",
     "a bzip2 file, which is not read; pack it with gzip or zstd instead"},
    {"\x04\x22\x4d\x18",
     "an lz4 file, which is not read; pack it with gzip or zstd instead"},
    {"PK\x03\x04", "a zip archive, which is not read; unpack it first"},
    {"7z\xbc\xaf\x27\x1c", "a 7z archive, which is not read; unpack it first"},
    {absl::string_view("ARROW1\0\0", 8),
     "an Arrow file, which is not read; write its rows to a .jsonl file "
     "first, e.g. with pyarrow"},
    {"Obj\x01",
     "an Avro file, which is not read; write its rows to a .jsonl file "
     "first"},
    {"\x89HDF\r\n\x1a\n",
     "an HDF5 file, which is not read; write its texts to a .jsonl file "
     "first"},
    {"\x93NUMPY",
     "a NumPy array, which is not read; write its texts to a .jsonl file "
     "first"},
};

constexpr absl::string_view kParquet =
    "a Parquet file, which is not read; convert it to .jsonl first, e.g. with "
    "pyarrow: pyarrow.parquet.read_table(FILE).to_pandas().to_json(OUT, "
    "orient='records', lines=True)";

}  // namespace

absl::string_view ForeignFormatAdvice(absl::string_view first) {
  // The first page's header follows the magic, and begins with control
  // characters, which tells it from a text that begins with these letters.
  if (absl::StartsWith(first, "PAR1") && first.size() > 4 &&
      static_cast<unsigned char>(first[4]) < 0x20 && first[4] != '\n' &&
      first[4] != '\r' && first[4] != '\t') {
    return kParquet;
  }
  for (const Format& format : kFormats) {
    if (absl::StartsWith(first, format.magic)) return format.advice;
  }
  return "";
}

}  // namespace comera::trainer
