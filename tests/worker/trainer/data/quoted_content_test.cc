// Gives every reader of a job's files a file that holds secrets, and looks for
// them in the failures, which whoever submitted the job can read.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/data/open_training_data.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Stands in all of the files.
constexpr char kSecret[] = "hunter";

// Files that somebody would like to see, and some that fit a reader better.
std::vector<std::string> Secrets() {
  const std::string key =
      "-----BEGIN hunter KEY-----\nhunter0001\nhunter0002\nhunter0002\n"
      "hunter0003\n-----END hunter KEY-----\n";
  std::string clicks = "hunter";
  for (int i = 0; i < 39; ++i) clicks += "\thunter";
  return {key,
          "comera_hunter_hunter",
          "{\"hunter\": \"hunter\", \"text\": 7, \"label\": null}\n",
          "{\"hunter\": {\"hunter\": [\"hunter\"]}}\n",
          "[\"<unk>\", \"</s>\", \"hunter\"]\n",
          "{\"hunter\": 0, \"hunter\": 1}\n",
          "{\"hunter\": 7}\n",
          "{\"model\": {\"type\": \"hunter\"}, \"pre_tokenizer\": "
          "{\"type\": \"hunter\"}}\n",
          "{\"model\": {\"vocab\": {\"hunter\": -1}, \"merges\": []}, "
          "\"pre_tokenizer\": {\"type\": \"ByteLevel\", "
          "\"add_prefix_space\": false}}\n",
          "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a hunter\"]}, "
          "\"pre_tokenizer\": {\"type\": \"ByteLevel\", "
          "\"add_prefix_space\": false}}\n",
          "user\tpassword\nroot\thunter\nguest\thunter2\nall\thunter3\n",
          "user,password\nroot,\"hunter\"hunter\n",
          clicks + "\n",
          "text\tlabel\nhunter\thunter\nhunter\thunter2\textra\n",
          "\n\nhunter\xff\n"};
}

class QuotedContentTest : public ::testing::Test {
 protected:
  using Change = std::function<void(const std::string& file, v1::JobSpec*)>;

  // Runs `change` with each secret file as `name`. At least one must fail, or
  // nothing is tested.
  void ExpectNoneQuoted(const std::string& name, const Change& change) {
    int failures = 0;
    for (const std::string& secret : Secrets()) {
      v1::JobSpec spec = Sound();
      change(folder_.Write(name, secret), &spec);
      const absl::Status status = OpenTrainingData(spec, {}).status();
      if (status.ok()) continue;
      ++failures;
      EXPECT_THAT(std::string(status.message()), Not(HasSubstr(kSecret)))
          << name << " with " << secret;
      EXPECT_THAT(std::string(status.message()), Not(HasSubstr("0002")));
    }
    EXPECT_GT(failures, 2) << name;
  }

  v1::JobSpec Sound() {
    v1::JobSpec spec;
    spec.mutable_model()->set_family(v1::ModelSpec::ENCODER_CLASSIFIER);
    v1::DataSpec* const data = spec.mutable_data();
    data->set_max_length(8);
    data->mutable_tokenizer()->set_kind(v1::TokenizerSpec::WORDPIECE);
    data->mutable_tokenizer()->set_vocabulary_file(folder_.Write(
        "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nx\ny\nz\n"));
    v1::GlueTsv* const tsv = data->mutable_glue_tsv();
    tsv->set_sentence1_column(0);
    tsv->set_sentence2_column(-1);
    const std::string table =
        folder_.Write("table.tsv", "a\tlabel\nx\tno\ny\tyes\nz\tyes\n");
    tsv->set_train(table);
    tsv->set_validation(table);
    return spec;
  }

  TempFolder folder_;
};

TEST_F(QuotedContentTest, Tables) {
  ASSERT_OK(OpenTrainingData(Sound(), {}));
  ExpectNoneQuoted("train", [](const std::string& file, v1::JobSpec* spec) {
    spec->mutable_data()->mutable_glue_tsv()->set_train(file);
  });
  ExpectNoneQuoted("dev", [](const std::string& file, v1::JobSpec* spec) {
    spec->mutable_data()->mutable_glue_tsv()->set_validation(file);
  });
  ExpectNoneQuoted("few", [](const std::string& file, v1::JobSpec* spec) {
    spec->mutable_model()->set_classes(1);
    spec->mutable_data()->mutable_glue_tsv()->set_train(file);
    spec->mutable_data()->mutable_glue_tsv()->set_validation(file);
  });
  for (const char* name : {"t.csv", "t.tsv", "t.jsonl"}) {
    ExpectNoneQuoted(name, [](const std::string& file, v1::JobSpec* spec) {
      v1::LabelledText* const text =
          spec->mutable_data()->mutable_labelled_text();
      text->set_train(file);
      text->set_text("text");
      text->set_label("label");
      text->set_validation_fraction(0.5);
    });
  }
}

TEST_F(QuotedContentTest, Texts) {
  for (const char* name : {"x.jsonl", "x.csv", "x.gz", "x.zst"}) {
    ExpectNoneQuoted(name, [](const std::string& file, v1::JobSpec* spec) {
      spec->mutable_model()->set_family(v1::ModelSpec::CAUSAL_LM);
      spec->mutable_data()->mutable_text()->add_train(file);
      spec->mutable_data()->mutable_text()->add_validation(file);
    });
  }
  ExpectNoneQuoted("lines", [](const std::string& file, v1::JobSpec* spec) {
    spec->mutable_model()->set_family(v1::ModelSpec::MASKED_LM);
    spec->mutable_data()->mutable_jsonl()->set_train(file);
    spec->mutable_data()->mutable_jsonl()->set_validation(file);
  });
}

TEST_F(QuotedContentTest, Clicks) {
  ExpectNoneQuoted("log.tsv", [](const std::string& file, v1::JobSpec* spec) {
    spec->Clear();
    spec->mutable_model()->set_family(v1::ModelSpec::DLRM);
    spec->mutable_data()->mutable_criteo_tsv()->add_files(file);
    spec->mutable_data()->mutable_criteo_tsv()->set_parts(2);
  });
}

TEST_F(QuotedContentTest, Shards) {
  ExpectNoneQuoted("index.json", [this](const std::string&, v1::JobSpec* spec) {
    spec->mutable_model()->set_family(v1::ModelSpec::CAUSAL_LM);
    spec->mutable_data()->clear_tokenizer();
    spec->mutable_data()->mutable_token_shards()->set_train(folder_.path());
  });
}

TEST_F(QuotedContentTest, Tokenizers) {
  ExpectNoneQuoted("words", [](const std::string& file, v1::JobSpec* spec) {
    spec->mutable_data()->mutable_tokenizer()->set_vocabulary_file(file);
  });
  ExpectNoneQuoted("tokens", [](const std::string& file, v1::JobSpec* spec) {
    v1::TokenizerSpec* tokenizer = spec->mutable_data()->mutable_tokenizer();
    tokenizer->set_kind(v1::TokenizerSpec::BYTE_BPE);
    tokenizer->set_vocabulary_file(file);
    tokenizer->set_merges_file(file);
  });
  const std::string sound = folder_.Write("sound.json", "{\"a\": 0, \"b\": 1}");
  ExpectNoneQuoted("merges", [&](const std::string& file, v1::JobSpec* spec) {
    v1::TokenizerSpec* tokenizer = spec->mutable_data()->mutable_tokenizer();
    tokenizer->set_kind(v1::TokenizerSpec::BYTE_BPE);
    tokenizer->set_vocabulary_file(sound);
    tokenizer->set_merges_file(file);
  });
  ExpectNoneQuoted("letters", [](const std::string& file, v1::JobSpec* spec) {
    v1::TokenizerSpec* tokenizer = spec->mutable_data()->mutable_tokenizer();
    tokenizer->set_kind(v1::TokenizerSpec::CHARACTERS);
    tokenizer->set_vocabulary_file(file);
  });
  for (const auto kind :
       {v1::TokenizerSpec::HUGGING_FACE, v1::TokenizerSpec::SENTENCEPIECE}) {
    ExpectNoneQuoted("model", [&](const std::string& file, v1::JobSpec* spec) {
      v1::TokenizerSpec* tokenizer = spec->mutable_data()->mutable_tokenizer();
      tokenizer->Clear();
      tokenizer->set_kind(kind);
      tokenizer->set_tokenizer_file(file);
    });
  }
}

}  // namespace
}  // namespace comera::trainer
