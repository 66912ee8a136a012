// Reads a file of token shards piece by piece, trusting nothing in it.
#include "worker/trainer/data/shards/shard_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "tokens are copied as they are in the file");

constexpr int64_t kBlock = 256;             // documents
constexpr int64_t kChunkNumbers = 8 << 10;  // read at once
constexpr int64_t kChunkTokens = 4 << 10;
constexpr int64_t kVerifyBytes = 1 << 20;

}  // namespace

absl::Status ShardFile::Error(absl::string_view what) const {
  return absl::DataLossError(absl::StrCat(PrintablePath(path_), ": ", what));
}

ShardFile::~ShardFile() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::unique_ptr<ShardFile>> ShardFile::Open(
    const std::string& path, const ShardEntry& entry, int64_t vocabulary_size,
    bool keep_open) {
  ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path));
  auto file = absl::WrapUnique(new ShardFile(path, fd));
  RETURN_IF_ERROR(file->ReadLayout(entry, vocabulary_size));
  RETURN_IF_ERROR(file->SampleEnds());
  if (!keep_open) close(std::exchange(file->fd_, -1));
  return file;
}

absl::Status ShardFile::ReadLayout(const ShardEntry& entry,
                                   int64_t vocabulary_size) {
  struct stat info;
  if (fstat(fd_, &info) != 0) return ErrnoStatus(errno, path_);
  if (info.st_size != entry.size_bytes) {
    return Error(absl::StrCat(info.st_size, " bytes, but the index says ",
                              entry.size_bytes));
  }
  if (info.st_size < ShardLayout::kHeaderBytes + ShardLayout::kFooterBytes) {
    return Error("truncated");
  }
  std::array<char, ShardLayout::kHeaderBytes> header;
  std::array<char, ShardLayout::kFooterBytes> footer;
  RETURN_IF_ERROR(ReadAt(0, header.size(), header.data()));
  RETURN_IF_ERROR(ReadAt(info.st_size - ShardLayout::kFooterBytes,
                         footer.size(), footer.data()));
  const absl::StatusOr<ShardLayout> layout =
      ShardLayout::Parse({header.data(), header.size()},
                         {footer.data(), footer.size()}, info.st_size);
  if (!layout.ok()) return Error(layout.status().message());
  layout_ = *layout;
  if (layout_.documents != entry.documents || layout_.tokens != entry.tokens ||
      layout_.text_bytes != entry.text_bytes ||
      layout_.vocabulary_size != vocabulary_size) {
    return Error("its counts are not those of the index");
  }
  return absl::OkStatus();
}

absl::Status ShardFile::SampleEnds() {
  int64_t last = 0;
  for (int64_t first = 0; first < layout_.documents; first += kChunkNumbers) {
    const int64_t count = std::min(kChunkNumbers, layout_.documents - first);
    ASSIGN_OR_RETURN(const std::vector<int64_t> ends,
                     ReadNumbers(layout_.token_ends() + 8 * first, count));
    for (int64_t i = 0; i < count; ++i) {
      if (ends[i] <= last || ends[i] > layout_.tokens) {
        return Error(absl::StrCat("document ", first + i,
                                  " ends where it cannot: token ends must "
                                  "rise up to the number of tokens"));
      }
      last = ends[i];
      if ((first + i) % kBlock == kBlock - 1) samples_.push_back(last);
    }
  }
  if (last != layout_.tokens) {
    return Error("the last document does not end with the last token");
  }
  if (layout_.documents % kBlock != 0) samples_.push_back(last);
  return absl::OkStatus();
}

absl::Status ShardFile::ReadAt(int64_t offset, int64_t size,
                               char* bytes) const {
  int fd = fd_;
  auto closer = absl::MakeCleanup([&fd] { close(fd); });
  if (fd_ >= 0) {
    std::move(closer).Cancel();
  } else {
    absl::StatusOr<int> opened = OpenRegularFile(path_);
    if (!opened.ok()) {
      std::move(closer).Cancel();
      return opened.status();
    }
    fd = *opened;
  }
  while (size > 0) {
    const ssize_t count = pread(fd, bytes, static_cast<size_t>(size), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "read " + path_);
    if (count == 0) return Error("truncated");
    bytes += count;
    offset += count;
    size -= count;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> ShardFile::ReadNumbers(
    int64_t offset, int64_t count) const {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  RETURN_IF_ERROR(
      ReadAt(offset, 8 * count, reinterpret_cast<char*>(numbers.data())));
  return numbers;
}

absl::Status ShardFile::ReadTokens(int64_t first, int64_t count,
                                   int32_t* ids) const {
  const int64_t width = layout_.bytes_per_token;
  const int64_t offset = ShardLayout::kHeaderBytes + width * first;
  if (width == 4) {
    RETURN_IF_ERROR(
        ReadAt(offset, width * count, reinterpret_cast<char*>(ids)));
  } else {
    std::array<uint16_t, kChunkTokens> narrow;
    for (int64_t done = 0; done < count; done += kChunkTokens) {
      const int64_t some = std::min(kChunkTokens, count - done);
      RETURN_IF_ERROR(ReadAt(offset + width * done, width * some,
                             reinterpret_cast<char*>(narrow.data())));
      std::copy_n(narrow.begin(), some, ids + done);
    }
  }
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, static_cast<uint32_t>(ids[i]));
  }
  if (largest < layout_.vocabulary_size) return absl::OkStatus();
  return Error(absl::StrCat("token ", largest, " is outside the vocabulary"));
}

absl::Status ShardFile::AppendEnds(int64_t first, int64_t count, int64_t offset,
                                   std::vector<int64_t>* ends) const {
  int64_t block = std::upper_bound(samples_.begin(), samples_.end(), first) -
                  samples_.begin();
  int64_t last = first;
  for (; last < first + count; ++block) {
    const int64_t begin = block * kBlock;
    const int64_t size = std::min(kBlock, layout_.documents - begin);
    std::array<int64_t, kBlock> numbers;
    if (size <= 0) return Error("changed while it is read");
    RETURN_IF_ERROR(ReadAt(layout_.token_ends() + 8 * begin, 8 * size,
                           reinterpret_cast<char*>(numbers.data())));
    const auto stop = numbers.begin() + size;
    auto end = std::upper_bound(numbers.begin(), stop, last);
    for (; end != stop && last < first + count; ++end) {
      if (*end <= last || *end > layout_.tokens) {
        return Error("changed while it is read");
      }
      last = *end;
      ends->push_back(offset + last);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ShardFile::TokensBefore(int64_t documents) const {
  if (documents == 0) return 0;
  ASSIGN_OR_RETURN(const std::vector<int64_t> end,
                   ReadNumbers(layout_.token_ends() + 8 * (documents - 1), 1));
  if (end[0] < documents || end[0] > layout_.tokens) {
    return Error("changed while it is read");
  }
  return end[0];
}

absl::StatusOr<int64_t> ShardFile::TextBytesBefore(int64_t documents) const {
  if (documents == 0) return 0;
  ASSIGN_OR_RETURN(const std::vector<int64_t> end,
                   ReadNumbers(layout_.text_ends() + 8 * (documents - 1), 1));
  if (end[0] < 0 || end[0] > layout_.text_bytes) {
    return Error("text ends lie outside the text");
  }
  return end[0];
}

absl::Status ShardFile::AddLabelCounts(std::vector<int64_t>* counts) const {
  const int64_t labels = layout_.tokens - layout_.documents;
  int64_t sum = 0;
  for (int64_t first = 0; first < layout_.vocabulary_size;
       first += kChunkNumbers) {
    const int64_t size =
        std::min(kChunkNumbers, layout_.vocabulary_size - first);
    ASSIGN_OR_RETURN(const std::vector<int64_t> some,
                     ReadNumbers(layout_.label_counts() + 8 * first, size));
    for (int64_t i = 0; i < size; ++i) {
      if (some[i] < 0 || some[i] > labels - sum) {
        return Error("impossible label counts");
      }
      sum += some[i];
      (*counts)[first + i] += some[i];
    }
  }
  return sum == labels ? absl::OkStatus() : Error("impossible label counts");
}

absl::Status ShardFile::AddLabelCountsFrom(int64_t first_document,
                                           std::vector<int64_t>* counts) const {
  ASSIGN_OR_RETURN(int64_t begin, TokensBefore(first_document));
  std::vector<int32_t> ids(kVerifyBytes / 4);
  std::vector<int64_t> ends;
  int64_t document = begin;  // where the next document begins
  while (begin < layout_.tokens) {
    const int64_t count = std::min<int64_t>(ids.size(), layout_.tokens - begin);
    RETURN_IF_ERROR(ReadTokens(begin, count, ids.data()));
    for (int64_t i = 0; i < count; ++i) ++(*counts)[ids[i]];
    ends.clear();
    RETURN_IF_ERROR(AppendEnds(begin, count, 0, &ends));
    for (const int64_t end : ends) {
      if (document >= begin && document < begin + count) {
        --(*counts)[ids[document - begin]];
      }
      if (end > begin + count) break;
      document = end;
    }
    begin += count;
  }
  return absl::OkStatus();
}

absl::Status ShardFile::Verify(
    const std::string& sha256,
    const std::function<void(int64_t)>& on_bytes) const {
  Sha256Stream digest;
  std::vector<char> bytes(kVerifyBytes);
  int64_t last_text_end = 0;
  for (int64_t offset = 0; offset < layout_.file_bytes();
       offset += kVerifyBytes) {
    const int64_t size = std::min(kVerifyBytes, layout_.file_bytes() - offset);
    RETURN_IF_ERROR(ReadAt(offset, size, bytes.data()));
    digest.Add({bytes.data(), static_cast<size_t>(size)});
    on_bytes(size);
  }
  if (digest.Finish() != sha256) {
    return Error("its SHA-256 is not that of the index");
  }
  const auto vocabulary = static_cast<size_t>(layout_.vocabulary_size);
  std::vector<int64_t> counted(vocabulary), told(vocabulary);
  RETURN_IF_ERROR(AddLabelCountsFrom(0, &counted));
  RETURN_IF_ERROR(AddLabelCounts(&told));
  if (counted != told) return Error("label counts are not those of its tokens");
  for (int64_t first = 0; first < layout_.documents; first += kChunkNumbers) {
    const int64_t count = std::min(kChunkNumbers, layout_.documents - first);
    ASSIGN_OR_RETURN(const std::vector<int64_t> ends,
                     ReadNumbers(layout_.text_ends() + 8 * first, count));
    for (const int64_t end : ends) {
      if (end < last_text_end) return Error("text ends fall");
      last_text_end = end;
    }
  }
  if (last_text_end != layout_.text_bytes) {
    return Error("text ends do not give the length of the text");
  }
  return absl::OkStatus();
}

}  // namespace comera::trainer
