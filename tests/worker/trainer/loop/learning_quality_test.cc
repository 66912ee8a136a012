// How well tensor-train models learn real tasks in a fixed number of steps. A
// change of the optimiser, the initialisation or the kernels that makes them
// learn worse fails here. The bounds are what was measured, plus the noise
// between seeds.
#include <memory>
#include <string>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/validation/job_validation.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "worker/trainer/data/batch/training_data.h"
#include "worker/trainer/data/open_training_data.h"

namespace comera::trainer {
namespace {

v1::JobSpec Parse(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return spec;
}

// Trains the job in one process and returns its last report with a validation.
v1::StepMetrics Train(const v1::JobSpec& job, int64_t* parameters) {
  TestRun run;
  EXPECT_TRUE(ValidateJobSpec(job, &run.spec).empty());
  auto data = OpenTrainingData(run.spec, {});
  EXPECT_OK(data);
  if (!data.ok()) return {};
  run.spec.mutable_model()->set_classes((*data)->classes());
  run.other_data = data->get();
  run.Run();
  EXPECT_OK(run.statuses[0]);
  v1::StepMetrics last;
  for (const v1::TrainerEvent& event : run.events) {
    if (event.has_metrics() && event.metrics().has_validation_loss()) {
      last = event.metrics();
    }
  }
  *parameters = last.size_parameters();
  return last;
}

TEST(LearningQualityTest, SentimentIn1000Steps) {
  const std::string train = SharedFile("data/sst2/train.tsv.gz");
  const std::string vocabulary =
      SharedFile("data/vocab/bert-uncased/vocab.txt");
  if (train.empty() || vocabulary.empty()) {
    GTEST_SKIP() << "COMERA_SHARED_DIR has no SST-2";
  }
  v1::JobSpec spec = Parse(R"pb(
    model {
      family: ENCODER_CLASSIFIER
      layers: 2
      hidden: 192
      ffn: 768
      heads: 6
      classes: 2
    }
    data {
      glue_tsv {
        sentence1_column: 0
        sentence2_column: -1
        labels: [ "0", "1" ]
      }
      tokenizer { kind: WORDPIECE }
      max_length: 48
    }
    compression {
      embedding { ranks: 32 }
      attention { ranks: 24 }
      ffn_up { ranks: 24 }
      ffn_down { ranks: 24 }
      head { ranks: 24 }
    }
    objective { early { steps: 1000 gamma: 0.0001 } }
    optimizer { warmup_steps: 100 decay: LINEAR }
    training {
      batch_size: 32
      seed: 1
      validate_every_steps: 1000
      validation_samples: -1
    }
  )pb");
  spec.mutable_data()->mutable_glue_tsv()->set_train(train);
  spec.mutable_data()->mutable_glue_tsv()->set_validation(
      SharedFile("data/sst2/dev.tsv"));
  spec.mutable_data()->mutable_tokenizer()->set_vocabulary_file(vocabulary);
  int64_t parameters = 0;
  const v1::StepMetrics last = Train(spec, &parameters);
  // The dense model has 6.8 million.
  EXPECT_LT(parameters, 300'000);
  EXPECT_GE(last.validation_accuracy(), 0.75);
}

TEST(LearningQualityTest, SourceCodeBesideDense) {
  v1::JobSpec spec = Parse(R"pb(
    model {
      family: MASKED_LM
      layers: 2
      hidden: 128
      ffn: 512
      heads: 4
      dropout_off: true
    }
    data {
      code_directory { roots: "/usr/include" globs: "*.h" max_bytes: 4194304 }
      tokenizer { kind: BYTE_BPE train_vocabulary_size: 1024 }
      max_length: 64
    }
    compression {
      embedding { ranks: 24 }
      attention { ranks: 32 }
      ffn_up { ranks: 32 }
      ffn_down { ranks: 32 }
      head { ranks: 32 }
      output { ranks: 64 }
    }
    objective { early { steps: 200 gamma: 0.0001 } }
    optimizer { warmup_steps: 20 decay: LINEAR }
    training {
      batch_size: 32
      seed: 1
      validate_every_steps: 200
      validation_samples: 512
    }
  )pb");
  int64_t parameters = 0;
  const double comera = Train(spec, &parameters).validation_loss();
  // The dense model has 685,184.
  EXPECT_LT(parameters, 260'000);
  spec.mutable_compression()->Clear();
  spec.mutable_compression()->set_method(v1::CompressionSpec::DENSE);
  spec.mutable_optimizer()->set_learning_rate_other(0.003);
  const double dense = Train(spec, &parameters).validation_loss();
  RecordProperty("comera", std::to_string(comera));
  RecordProperty("dense", std::to_string(dense));
  EXPECT_LT(dense, 6.5);  // the peer has learnt something, too
  EXPECT_LT(comera, dense + 0.2);
}

}  // namespace
}  // namespace comera::trainer
