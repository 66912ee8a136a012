// Parses the index of a folder of token shards, which anyone may have written.
//
// The members are taken as the parser meets them and no tree of the text is
// built: such a tree takes many times the memory of the text.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "worker/trainer/data/shards/shard_index.h"
#include "worker/trainer/data/shards/shard_layout.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxCount = int64_t{1} << 60;
// The depth of values of unknown members.
constexpr int kMaxUnknownDepth = 16;

bool IsDigest(absl::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

// A member of an object, where its value goes, and whether it was met. Arrays
// go to the index.
struct Member {
  enum class Kind { kText, kDigest, kCount, kShards, kLabelCounts };

  const char* name;
  Kind kind;
  std::string* text = nullptr;
  int64_t* count = nullptr;
  bool found = false;

  absl::Status Refuse() const {
    const char* expected = "a text";
    if (kind == Kind::kDigest) expected = "a digest";
    if (kind == Kind::kCount) expected = "a count";
    if (kind == Kind::kShards) expected = "an array of objects";
    if (kind == Kind::kLabelCounts) expected = "an array of counts";
    return absl::DataLossError(absl::StrCat(name, ": expected ", expected));
  }
};

// Receives what the JSON parser meets; false stops the parser.
class IndexEvents : public nlohmann::json_sax<Json> {
 public:
  absl::StatusOr<ShardIndex> Parse(absl::string_view text) {
    const bool whole =
        Json::sax_parse(text.data(), text.data() + text.size(), this);
    RETURN_IF_ERROR(status_);
    if (!whole) return absl::DataLossError(kNoIndex);
    return std::move(index_);
  }

  bool null() override { return Scalar(nullptr, nullptr); }
  bool boolean(bool) override { return Scalar(nullptr, nullptr); }
  bool number_integer(int64_t) override { return Scalar(nullptr, nullptr); }
  bool number_float(double, const std::string&) override {
    return Scalar(nullptr, nullptr);
  }
  bool binary(Json::binary_t&) override { return Scalar(nullptr, nullptr); }
  bool number_unsigned(uint64_t value) override {
    return value > static_cast<uint64_t>(kMaxCount) ? Scalar(nullptr, nullptr)
                                                    : Scalar(nullptr, &value);
  }
  bool string(std::string& value) override { return Scalar(&value, nullptr); }

  bool start_object(size_t) override {
    if (IsUnknown()) return BeginUnknown();
    if (place_ == Place::kOutside) {
      place_ = Place::kIndex;
      return true;
    }
    if (place_ != Place::kShards) return RefuseValue();
    if (index_.shards.size() >= kMaxShards) {
      return Stop(absl::StrCat("shards: more than ", kMaxShards));
    }
    place_ = Place::kShard;
    entry_ = ShardEntry();
    for (Member& member : shard_members_) member.found = false;
    return true;
  }

  bool end_object() override {
    if (unknown_depth_ > 0) return EndUnknown();
    if (place_ == Place::kIndex) {
      place_ = Place::kOutside;
      return Check(index_members_) && CheckIndex();
    }
    place_ = Place::kShards;
    if (!Check(shard_members_)) return false;
    const std::string file =
        ShardFileName(static_cast<int64_t>(index_.shards.size()));
    // A name of another file could lead out of the folder.
    if (file_ != file) return Stop(absl::StrCat("shards: expected ", file));
    index_.shards.push_back(entry_);
    return true;
  }

  bool start_array(size_t) override {
    if (IsUnknown()) return BeginUnknown();
    if (place_ != Place::kIndex || member_ == nullptr) return RefuseValue();
    if (member_->kind == Kind::kShards) {
      place_ = Place::kShards;
    } else if (member_->kind == Kind::kLabelCounts) {
      place_ = Place::kLabelCounts;
    } else {
      return RefuseValue();
    }
    return true;
  }

  bool end_array() override {
    if (unknown_depth_ > 0) return EndUnknown();
    place_ = Place::kIndex;
    return true;
  }

  bool key(std::string& name) override {
    if (unknown_depth_ > 0) return true;
    const absl::Span<Member> members = place_ == Place::kShard
                                           ? absl::MakeSpan(shard_members_)
                                           : absl::MakeSpan(index_members_);
    const auto found =
        std::find_if(members.begin(), members.end(),
                     [&](const Member& m) { return name == m.name; });
    member_ = found == members.end() ? nullptr : &*found;
    if (member_ == nullptr) return true;
    if (member_->found) {
      return Stop(absl::StrCat(member_->name, ": is there twice"));
    }
    member_->found = true;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Stop(absl::StrCat(kNoIndex, ": malformed JSON at byte ", position));
  }

 private:
  // kOutside stands for the text before and behind the index itself, kShard for
  // one of its shards.
  enum class Place { kOutside, kIndex, kShards, kShard, kLabelCounts };
  using Kind = Member::Kind;

  static constexpr char kNoIndex[] = "not an index of token shards";

  bool Stop(const std::string& message) {
    status_ = absl::DataLossError(message);
    return false;
  }

  // Whether what comes belongs to a member that is not known. Members that
  // others may add later are passed over.
  bool IsUnknown() const {
    return member_ == nullptr &&
           (place_ == Place::kIndex || place_ == Place::kShard);
  }
  bool BeginUnknown() {
    return ++unknown_depth_ <= kMaxUnknownDepth || Stop("nested too deeply");
  }
  bool EndUnknown() {
    --unknown_depth_;
    return true;
  }

  // Refuses a value of a kind that does not belong here.
  bool RefuseValue() {
    if (place_ == Place::kLabelCounts) {
      return Stop("label_counts: expected counts");
    }
    if (place_ == Place::kShards) return Stop("shards: expected objects");
    if (place_ == Place::kOutside || member_ == nullptr) return Stop(kNoIndex);
    status_ = member_->Refuse();
    return false;
  }

  // Takes a value that is a text, a count, or, where both are null, anything
  // else that is neither an object nor an array.
  bool Scalar(std::string* text, const uint64_t* count) {
    if (place_ == Place::kLabelCounts) return AddLabelCount(count);
    if (place_ == Place::kOutside || place_ == Place::kShards) {
      return RefuseValue();
    }
    if (IsUnknown()) return true;
    const bool fits = member_->kind == Kind::kCount ? count != nullptr
                      : member_->kind == Kind::kDigest
                          ? text != nullptr && IsDigest(*text)
                      : member_->kind == Kind::kText ? text != nullptr
                                                     : false;
    if (!fits) return RefuseValue();
    if (text != nullptr) *member_->text = std::move(*text);
    if (count != nullptr) *member_->count = static_cast<int64_t>(*count);
    return CheckNow();
  }

  // What makes the rest unreadable is told at once.
  bool CheckNow() {
    if (member_->count == &version_ && version_ != kShardIndexVersion) {
      return Stop("token shards of another version; prepare them anew");
    }
    if (member_->text == &format_ && format_ != kShardIndexFormat) {
      return Stop(kNoIndex);
    }
    if (member_->count == &index_.vocabulary_size &&
        (index_.vocabulary_size < 1 ||
         index_.vocabulary_size > ShardLayout::kMaxVocabulary)) {
      return Stop(absl::StrCat("vocabulary_size: is not in 1 to ",
                               ShardLayout::kMaxVocabulary));
    }
    return true;
  }

  bool AddLabelCount(const uint64_t* count) {
    if (count == nullptr) return RefuseValue();
    const int64_t most = index_.vocabulary_size > 0
                             ? index_.vocabulary_size
                             : ShardLayout::kMaxVocabulary;
    if (static_cast<int64_t>(index_.label_counts.size()) >= most) {
      return Stop("label_counts: expected one per token");
    }
    index_.label_counts.push_back(static_cast<int64_t>(*count));
    return true;
  }

  bool Check(absl::Span<const Member> members) {
    for (const Member& member : members) {
      if (member.found) continue;
      if (member.text == &format_) return Stop(kNoIndex);
      return Stop(absl::StrCat(member.name, ": missing"));
    }
    return true;
  }

  bool CheckIndex() {
    if (static_cast<int64_t>(index_.label_counts.size()) !=
        index_.vocabulary_size) {
      return Stop("label_counts: expected one per token");
    }
    int64_t documents = 0, tokens = 0, text_bytes = 0;
    for (const ShardEntry& shard : index_.shards) {
      // No sum of two counts overflows.
      documents += shard.documents;
      tokens += shard.tokens;
      text_bytes += shard.text_bytes;
      if (documents > kMaxCount || tokens > kMaxCount ||
          text_bytes > kMaxCount) {
        return Stop("shards: impossible counts");
      }
    }
    int64_t labels = 0;
    for (const int64_t count : index_.label_counts) {
      if (count > index_.tokens - labels) {
        return Stop("label_counts: more than there are tokens");
      }
      labels += count;
    }
    if (documents != index_.documents || tokens != index_.tokens ||
        text_bytes != index_.text_bytes || documents > tokens ||
        labels != tokens - documents) {
      return Stop("counts disagree");
    }
    return true;
  }

  absl::Status status_;
  ShardIndex index_;
  Place place_ = Place::kOutside;
  Member* member_ = nullptr;  // null: one that is not known
  // Arrays and objects that are open in its value.
  int unknown_depth_ = 0;
  std::string format_, file_;
  int64_t version_ = 0;
  ShardEntry entry_;
  std::array<Member, 13> index_members_ = {
      {{"format", Kind::kText, &format_},
       {"version", Kind::kCount, nullptr, &version_},
       {"made_from", Kind::kDigest, &index_.made_from},
       {"sources", Kind::kDigest, &index_.sources},
       {"tokenizer_sha256", Kind::kDigest, &index_.tokenizer_digest},
       {"vocabulary_size", Kind::kCount, nullptr, &index_.vocabulary_size},
       {"documents", Kind::kCount, nullptr, &index_.documents},
       {"tokens", Kind::kCount, nullptr, &index_.tokens},
       {"text_bytes", Kind::kCount, nullptr, &index_.text_bytes},
       {"skipped_rows", Kind::kCount, nullptr, &index_.skipped_rows},
       {"duplicates", Kind::kCount, nullptr, &index_.duplicates},
       {"shards", Kind::kShards},
       {"label_counts", Kind::kLabelCounts}}};
  std::array<Member, 6> shard_members_ = {
      {{"file", Kind::kText, &file_},
       {"sha256", Kind::kDigest, &entry_.sha256},
       {"size_bytes", Kind::kCount, nullptr, &entry_.size_bytes},
       {"documents", Kind::kCount, nullptr, &entry_.documents},
       {"tokens", Kind::kCount, nullptr, &entry_.tokens},
       {"text_bytes", Kind::kCount, nullptr, &entry_.text_bytes}}};
};

}  // namespace

absl::StatusOr<ShardIndex> ParseShardIndex(absl::string_view json,
                                           const std::string& name) {
  absl::StatusOr<ShardIndex> index = IndexEvents().Parse(json);
  if (index.ok()) return index;
  return absl::DataLossError(
      absl::StrCat(PrintablePath(name), ": ", index.status().message()));
}

}  // namespace comera::trainer
