// Tests the preparation of token shards: that its result is a function of the
// sources and the settings, whatever interrupts it and however many threads
// work on it, and what it refuses.
#include "worker/trainer/data/prepare/prepare.h"

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/data/gzip.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "worker/trainer/data/prepare/prepare_tokenizer.h"
#include "worker/trainer/data/prepare/shard_folder.h"
#include "worker/trainer/data/shards/shard_index.h"
#include "worker/trainer/data/shards/shard_set.h"
#include "worker/trainer/data/tokenizer/tokenizer_digest.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

using Files = std::map<std::string, std::string>;

// Names and contents of all files below a folder.
Files Contents(const std::string& folder) {
  Files files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[entry.path().string().substr(folder.size())] =
        *ReadFile(entry.path().string());
  }
  return files;
}

// A text of words that depends on a number.
std::string Text(int number) {
  static const char* const kWords[] = {"the ",  "shard ", "of ", "a ",
                                       "token", "\n",     "é "};
  std::string text = absl::StrCat("document ", number, " ");
  for (int i = 0; i < 5 + number * 7 % 30; ++i) {
    text += kWords[(i * i + number) % 7];
  }
  return text;
}

std::string JsonLines(int begin, int end) {
  std::string lines;
  for (int i = begin; i < end; ++i) {
    std::string text = Text(i);
    for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) {
      text.replace(at, 1, "\\n");
    }
    absl::StrAppend(&lines, "{\"id\": ", i, ", \"text\": \"", text, "\"}\n");
  }
  return lines;
}

class PrepareTest : public ::testing::Test {
 protected:
  PrepareTest() {
    options_.to = out_ / "shards";
    options_.train.set_kind(v1::TokenizerSpec::BYTE_BPE);
    options_.train.set_train_vocabulary_size(320);
    options_.shard_tokens = 1500;
  }
  // Three files of 100 documents each.
  void WriteSources() {
    for (int i = 0; i < 3; ++i) {
      const std::string name = absl::StrCat("s", i, ".jsonl");
      options_.sources.push_back(
          in_.Write(name, JsonLines(100 * i, 100 * i + 100)));
    }
  }
  std::vector<std::string> DocumentsOf(const std::string& folder) {
    FileCache none("", nullptr);
    const auto set = ShardSet::Open(folder, &none, {});
    EXPECT_OK(set);
    if (!set.ok()) return {};
    const auto tokenizer = OpenTokenizerAt((*set)->tokenizer_folder());
    EXPECT_OK(tokenizer);
    const auto whole = WholeShards(*set);
    std::vector<int32_t> tokens(whole->tokens());
    EXPECT_OK(whole->CopyTokens(0, whole->tokens(), tokens.data()));
    std::vector<int64_t> ends;
    EXPECT_OK(whole->CopyEnds(0, whole->tokens(), &ends));
    std::vector<std::string> texts;
    int64_t begin = 0;
    for (const int64_t end : ends) {
      texts.push_back(
          (*tokenizer)->Decode({tokens.begin() + begin, tokens.begin() + end}));
      EXPECT_EQ(tokens[end - 1], (*tokenizer)->end_of_text());
      begin = end;
    }
    return texts;
  }
  std::vector<std::string> Documents() { return DocumentsOf(options_.to); }

  const TempFolder in_, out_;
  PrepareOptions options_;
};

TEST_F(PrepareTest, DocumentsOfAllKindsOfFiles) {
  options_.sources = {
      in_.Write("a.txt", "one\n---\ntwo\nlines\n---\n"),
      in_.Write("b.jsonl.gz", Gzip("{\"text\": \"three\"}\n\n{\"text\": \"\"}"
                                   "\n{\"text\":\"fo\\u0075r\"}\n")),
      in_.Write("c.csv",
                "id,text\n1,\"five, \"\"quoted\"\"\nand six\"\n2,"
                "seven\n")};
  options_.reading.format.separator = "---";
  const auto result = PrepareShards(options_);
  ASSERT_OK(result);
  EXPECT_EQ(result->index.documents, 6);
  EXPECT_THAT(Documents(),
              ::testing::ElementsAre("one\n", "two\nlines\n", "three", "four",
                                     "five, \"quoted\"\nand six", "seven"));
}

TEST_F(PrepareTest, TheNumberOfThreadsChangesNothing) {
  WriteSources();
  ASSERT_OK(PrepareShards(options_));
  const Files one = Contents(options_.to);
  EXPECT_GT(one.size(), 6u);
  EXPECT_EQ(Documents().size(), 300u);
  EXPECT_EQ(Documents()[123], Text(123));
  options_.to = out_ / "parallel";
  options_.threads = 4;
  ASSERT_OK(PrepareShards(options_));
  EXPECT_EQ(Contents(options_.to), one);
}

// Interrupts the preparation before each durable change in turn; what is left
// is what kill -9 leaves. The next run has to come to the same end, and has to
// keep the shards that were finished.
TEST_F(PrepareTest, InterruptionsChangeNothing) {
  WriteSources();
  for (const bool deduplicate : {false, true}) {
    options_.deduplicate = deduplicate;
    options_.to = out_ / absl::StrCat("whole", deduplicate);
    ASSERT_OK(PrepareShards(options_));
    const Files whole = Contents(options_.to);
    int stages = 0, most_kept = 0;
    for (bool interrupted = true; interrupted; ++stages) {
      options_.to = out_ / absl::StrCat("stage", stages, "-", deduplicate);
      int passed = 0, finished = 0;
      options_.before = [&](PrepareStage stage) {
        if (passed++ == stages) return absl::AbortedError("interrupted");
        if (stage == PrepareStage::kState) ++finished;
        return absl::OkStatus();
      };
      interrupted = absl::IsAborted(PrepareShards(options_).status());
      // A shard that was being written remains as a temporary file.
      if (stages > 2 && interrupted) {
        ASSERT_OK(WriteFileAtomically(options_.to + "/shard-000004.tokens.tmp",
                                      "half"));
      }
      options_.before = nullptr;
      const auto resumed = PrepareShards(options_);
      ASSERT_OK(resumed) << stages;
      EXPECT_EQ(Contents(options_.to), whole) << stages;
      if (!resumed->already_there) {
        EXPECT_EQ(resumed->kept_shards, finished) << stages;
        most_kept = std::max<int>(most_kept, resumed->kept_shards);
      }
    }
    EXPECT_GT(stages, 10);
    EXPECT_GT(most_kept, 3);
  }
}

TEST_F(PrepareTest, ShardsOfUnchangedSourcesAreKept) {
  WriteSources();
  options_.tokenizer = out_ / "tokenizer";
  {
    PrepareOptions first = options_;
    first.tokenizer = "";
    first.to = out_ / "first";
    ASSERT_OK(PrepareShards(first));
    std::filesystem::copy(first.to + "/tokenizer", options_.tokenizer);
  }
  options_.before = [](PrepareStage stage) {
    return stage == PrepareStage::kIndex ? absl::AbortedError("interrupted")
                                         : absl::OkStatus();
  };
  ASSERT_TRUE(absl::IsAborted(PrepareShards(options_).status()));
  options_.before = nullptr;
  in_.Write("s1.jsonl", JsonLines(500, 640));
  const auto result = PrepareShards(options_);
  ASSERT_OK(result);
  EXPECT_GT(result->kept_shards, 0);
  EXPECT_LT(result->kept_shards,
            static_cast<int64_t>(result->index.shards.size()) / 2);
  const Files resumed = Contents(options_.to);
  options_.to = out_ / "anew";
  ASSERT_OK(PrepareShards(options_));
  EXPECT_EQ(Contents(options_.to), resumed);
}

TEST_F(PrepareTest, ASecondRunFindsAllThere) {
  WriteSources();
  ASSERT_OK(PrepareShards(options_));
  const Files files = Contents(options_.to);
  const auto again = PrepareShards(options_);
  ASSERT_OK(again);
  EXPECT_TRUE(again->already_there);
  EXPECT_EQ(again->index.documents, 300);
  EXPECT_EQ(Contents(options_.to), files);
}

TEST_F(PrepareTest, ShardsOfSomethingElseAreReplacedByForceOnly) {
  WriteSources();
  ASSERT_OK(PrepareShards(options_));
  const auto refused = [&] {
    EXPECT_THAT(
        PrepareShards(options_),
        StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("--force")));
  };
  PrepareOptions good = options_;
  options_.train.set_train_vocabulary_size(330);
  refused();
  options_ = good;
  options_.sources.pop_back();
  refused();
  options_ = good;
  options_.reading.format.field = "id";
  refused();
  options_ = good;
  in_.Write("s2.jsonl", JsonLines(0, 7));
  refused();
  options_.force = true;
  const auto forced = PrepareShards(options_);
  ASSERT_OK(forced);
  EXPECT_EQ(forced->index.documents, 207);
  // Shards of the old set that the new one does not have are gone.
  Files files = Contents(options_.to);
  options_.to = out_ / "anew";
  ASSERT_OK(PrepareShards(options_));
  EXPECT_EQ(Contents(options_.to), files);
  // A folder of other things.
  out_.Write("photos/a.jpg", "jpg");
  options_.to = out_ / "photos";
  options_.force = false;
  refused();
}

TEST_F(PrepareTest, ForceRemovesNothingBeforeTheTokenizerIsOpen) {
  WriteSources();
  ASSERT_OK(PrepareShards(options_));
  const Files files = Contents(options_.to);
  options_.force = true;
  options_.tokenizer = out_ / "mistyped.json";
  EXPECT_THAT(PrepareShards(options_), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(Contents(options_.to), files);
  options_.tokenizer = "";
  const std::vector<std::string> sources =
      std::exchange(options_.sources, {"-"});
  EXPECT_THAT(PrepareShards(options_),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(Contents(options_.to), files);
  options_.sources = {in_.Write("bad.jsonl", "{")};
  EXPECT_THAT(PrepareShards(options_), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(Contents(options_.to), files);
  options_.sources = sources;
  // More texts under the vocabulary that lies in the folder itself.
  options_.tokenizer = options_.to + "/tokenizer";
  options_.sources.push_back(in_.Write("more.jsonl", JsonLines(300, 310)));
  const auto more = PrepareShards(options_);
  ASSERT_OK(more);
  EXPECT_EQ(more->index.documents, 310);
  EXPECT_EQ(Documents().size(), 310u);
}

// Interrupts a replacement before each durable change in turn. Once something
// of the old shards is gone, the same command goes on without force.
TEST_F(PrepareTest, AnInterruptedReplacementGoesOnWithoutForce) {
  WriteSources();
  options_.sources.resize(2);
  ASSERT_OK(PrepareShards(options_));
  const PrepareOptions old = options_;
  // With a tokenizer of its own, and with the one that the folder has.
  for (const bool keeps_tokenizer : {false, true}) {
    const auto settings = [&](const std::string& to) {
      options_ = old;
      options_.to = to;
      std::filesystem::copy(old.to, to,
                            std::filesystem::copy_options::recursive);
      options_.sources.pop_back();
      options_.force = true;
      if (keeps_tokenizer) options_.tokenizer = to + "/tokenizer";
    };
    settings(out_ / absl::StrCat("whole", keeps_tokenizer));
    ASSERT_OK(PrepareShards(options_));
    const Files whole = Contents(options_.to);
    int stages = 0;
    for (bool interrupted = true; interrupted; ++stages) {
      settings(out_ / absl::StrCat("stage", stages, "-", keeps_tokenizer));
      const Files before = Contents(options_.to);
      int passed = 0;
      options_.before = [&](PrepareStage) {
        return passed++ == stages ? absl::AbortedError("interrupted")
                                  : absl::OkStatus();
      };
      interrupted = absl::IsAborted(PrepareShards(options_).status());
      options_.before = nullptr;
      options_.force = false;
      if (stages == 0) {
        EXPECT_EQ(Contents(options_.to), before);
        EXPECT_THAT(PrepareShards(options_),
                    StatusIs(absl::StatusCode::kAlreadyExists));
        continue;
      }
      // The removal of the shards may end between two of them.
      if (stages == 2) {
        ASSERT_TRUE(
            std::filesystem::remove(options_.to + "/" + ShardFileName(1)));
      }
      ASSERT_OK(PrepareShards(options_)) << stages;
      EXPECT_EQ(Contents(options_.to), whole) << stages;
    }
    EXPECT_GT(stages, 8);
  }
}

// The folder's tokenizer is the only copy, and not as it would be saved.
TEST_F(PrepareTest, AnInterruptedReplacementKeepsTheTokenizer) {
  WriteSources();
  options_.sources.resize(1);
  options_.shard_tokens = 100000;
  ASSERT_OK(PrepareShards(options_));
  const PrepareOptions old = options_;
  const std::string digest = *SavedTokenizerDigest(old.to + "/tokenizer");
  out_.Write("shards/tokenizer/README.md", "Read me.");
  const Files tokenizer = Contents(old.to + "/tokenizer");
  out_.Write("shards/tokenizer/tokenizer_config.json", "{\"more\": 1}");
  int stages = 0;
  for (bool interrupted = true; interrupted; ++stages) {
    options_ = old;
    options_.to = out_ / absl::StrCat("stage", stages);
    options_.tokenizer = options_.to + "/tokenizer";
    options_.force = true;
    std::filesystem::copy(old.to, options_.to,
                          std::filesystem::copy_options::recursive);
    int passed = 0;
    options_.before = [&](PrepareStage) {
      return passed++ == stages ? absl::AbortedError("interrupted")
                                : absl::OkStatus();
    };
    interrupted = absl::IsAborted(PrepareShards(options_).status());
    const auto there = OpenTokenizerAt(options_.tokenizer);
    ASSERT_OK(there) << stages;
    EXPECT_EQ(*TokenizerDigest(**there), digest) << stages;
    options_.before = nullptr;
    options_.force = stages == 0;
    const auto resumed = PrepareShards(options_);
    ASSERT_OK(resumed) << stages;
    EXPECT_EQ(Contents(options_.tokenizer), tokenizer) << stages;
    EXPECT_FALSE(std::filesystem::exists(options_.to + "/.tokenizer.new"));
  }
  EXPECT_GT(stages, 8);
}

// Where two folders cannot be exchanged in one step, the old one may be aside.
TEST_F(PrepareTest, ATokenizerThatIsAsideIsFound) {
  WriteSources();
  ASSERT_OK(PrepareShards(options_));
  options_.tokenizer = options_.to + "/tokenizer";
  options_.force = true;
  ASSERT_OK(PrepareShards(options_));
  const Files files = Contents(options_.to);
  std::filesystem::rename(options_.tokenizer, options_.to + "/.tokenizer.old");
  out_.Write("shards/.tokenizer.new/vocab.json", "{}");
  const auto found = PrepareShards(options_);
  ASSERT_OK(found);
  EXPECT_TRUE(found->already_there);
  EXPECT_EQ(Contents(options_.to), files);
}

TEST_F(PrepareTest, AnInterruptedReplacementIsNoOtherTokenizers) {
  WriteSources();
  ASSERT_OK(PrepareShards(options_));
  const auto interrupt = [this](int stage) {
    int passed = 0;
    options_.force = true;
    options_.before = [=](PrepareStage) mutable {
      return passed++ == stage ? absl::AbortedError("interrupted")
                               : absl::OkStatus();
    };
    EXPECT_TRUE(absl::IsAborted(PrepareShards(options_).status()));
    options_.before = nullptr;
    options_.force = false;
  };
  PrepareOptions other = options_;
  other.to = out_ / "other";
  other.train.set_train_vocabulary_size(330);
  ASSERT_OK(PrepareShards(other));
  options_.tokenizer = out_ / "other/tokenizer";
  options_.sources.pop_back();
  const std::string index = options_.to + "/" + kShardIndexFile;
  // The index is there after the first stage and gone after the second.
  for (const int stage : {1, 2}) {
    interrupt(stage);
    EXPECT_EQ(std::filesystem::exists(index), stage == 1);
    const Files before = Contents(options_.to);
    PrepareOptions mistaken = options_;
    mistaken.tokenizer = options_.to + "/tokenizer";
    EXPECT_THAT(PrepareShards(mistaken),
                StatusIs(absl::StatusCode::kAlreadyExists));
    EXPECT_EQ(Contents(options_.to), before);
  }
  ASSERT_OK(PrepareShards(options_));
  EXPECT_EQ(Documents().size(), 200u);
  // Standard input may hold another text the next time.
  options_.sources = {"-"};
  interrupt(1);
  EXPECT_THAT(PrepareShards(options_),
              StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_TRUE(std::filesystem::exists(index));
}

TEST_F(PrepareTest, AnInterruptedReplacementIsNoOtherCommands) {
  WriteSources();
  ASSERT_OK(PrepareShards(options_));
  const PrepareOptions old = options_;
  options_.sources.pop_back();
  options_.force = true;
  int passed = 0;
  options_.before = [&](PrepareStage) {
    return ++passed == 3 ? absl::AbortedError("interrupted") : absl::OkStatus();
  };
  ASSERT_TRUE(absl::IsAborted(PrepareShards(options_).status()));
  EXPECT_THAT(PrepareShards(old), StatusIs(absl::StatusCode::kAlreadyExists,
                                           HasSubstr("unfinished")));
}

TEST_F(PrepareTest, DamagedShardsAreNotTakenForWhole) {
  WriteSources();
  ASSERT_OK(PrepareShards(options_));
  const Files files = Contents(options_.to);
  const std::string shard = options_.to + "/" + ShardFileName(0);
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 1);
  EXPECT_THAT(PrepareShards(options_),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(shard)));
  options_.force = true;
  ASSERT_OK(PrepareShards(options_));
  EXPECT_EQ(Contents(options_.to), files);
}

TEST_F(PrepareTest, OneProcessAtATime) {
  WriteSources();
  const auto folder = ShardFolder::Lock(options_.to);
  ASSERT_OK(folder);
  EXPECT_THAT(PrepareShards(options_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("another process")));
}

TEST_F(PrepareTest, EqualDocumentsAreLeftOut) {
  options_.sources = {
      in_.Write("a.jsonl", JsonLines(0, 50) + JsonLines(20, 60)),
      in_.Write("b.jsonl", JsonLines(59, 61))};
  options_.deduplicate = true;
  const auto result = PrepareShards(options_);
  ASSERT_OK(result);
  EXPECT_EQ(result->index.documents, 61);
  EXPECT_EQ(result->index.duplicates, 31);
  const auto documents = Documents();
  ASSERT_EQ(documents.size(), 61u);
  for (int i = 0; i < 61; ++i) EXPECT_EQ(documents[i], Text(i));
}

TEST_F(PrepareTest, BadRowsAreSkippedUpToTheLimit) {
  options_.sources = {
      in_.Write("a.jsonl", JsonLines(0, 20) + "{\n" + JsonLines(20, 30) +
                               "{\"text\": 7}\n\"\xff\"\n"),
      in_.Write("b.jsonl", "{\"other\": \"x\"}\n" + JsonLines(30, 40))};
  EXPECT_THAT(PrepareShards(options_),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("a.jsonl:21: malformed JSON")));
  options_.reading.max_bad_rows = 3;
  EXPECT_THAT(PrepareShards(options_),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("b.jsonl:1: no field 'text'")));
  options_.reading.max_bad_rows = 4;
  const auto result = PrepareShards(options_);
  ASSERT_OK(result);
  EXPECT_EQ(result->index.skipped_rows, 4);
  EXPECT_EQ(result->index.documents, 40);
  EXPECT_THAT(result->skipped, HasSubstr("a.jsonl:21"));
}

TEST_F(PrepareTest, ASourceThatChangesMeanwhileIsNoticed) {
  WriteSources();
  options_.before = [&](PrepareStage stage) {
    if (stage == PrepareStage::kTokenizer) {
      in_.Write("s0.jsonl", JsonLines(0, 101));
    }
    return absl::OkStatus();
  };
  EXPECT_THAT(PrepareShards(options_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("s0.jsonl: changed")));
}

TEST_F(PrepareTest, StoppingIsPrompt) {
  WriteSources();
  int asked = 0;
  options_.keep_going = [&] {
    return ++asked == 3 ? absl::CancelledError("stop") : absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsCancelled(PrepareShards(options_).status()));
  EXPECT_EQ(asked, 3);
}

TEST_F(PrepareTest, BadSources) {
  const auto expect = [&](const std::string& source, absl::StatusCode code,
                          const char* message) {
    options_.sources = {source};
    options_.force = true;
    EXPECT_THAT(PrepareShards(options_), StatusIs(code, HasSubstr(message)));
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  expect("https://example.org/a.txt", kInvalid, "URLs are not read");
  expect("s3://bucket/a.txt", kInvalid, "URLs are not read");
  expect(in_.path(), kInvalid, "a folder");
  expect(in_ / "none.txt", absl::StatusCode::kNotFound, "none.txt");
  expect(in_ / "*.none", absl::StatusCode::kNotFound, "no file matches");
  expect("-", kInvalid, "standard input is read only once");
  expect(in_.Write("empty.txt", ""), absl::StatusCode::kDataLoss,
         "no document");
  expect(in_.Write("x.parquet", std::string("PAR1\x15\x04", 6)),
         absl::StatusCode::kDataLoss, "pyarrow");
  options_.sources = {"-", in_.Write("a.txt", "a")};
  EXPECT_THAT(PrepareShards(options_),
              StatusIs(kInvalid, HasSubstr("the only source")));
}

}  // namespace
}  // namespace comera::trainer
