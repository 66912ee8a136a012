// Checks the lines that report a job's progress, events and summary.

#include "client/cli/live/progress_view.h"

#include <string>

#include "absl/strings/str_join.h"
#include "client/cli/live/run_figures.h"
#include "client/cli/output/text_format.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace comera::client {
namespace {

template <typename Message>
Message FromText(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

v1::JobEvent Event(const std::string& text) {
  return FromText<v1::JobEvent>(text);
}

const char kJob[] = R"pb(
  name: "jobs/abc"
  state: RUNNING
  spec {
    model { family: MASKED_LM }
    objective { late { target_loss: 5.5 target_ratio: 0.9 } }
  }
)pb";
const char kRunInfo[] = R"pb(
  run_info {
    train_samples: 12345
    validation_samples: 678
    vocabulary_size: 4096
    baseline_loss: 6.5
    initial_parameters: 200000
    dense_parameters: 4000000
  }
)pb";
const char kRanks[] = R"pb(
  rank_snapshot {
    layers {
      layer: "ffn0"
      layer_class: "ffn_up"
      initial: [ 24, 24 ]
      current: [ 12, 0 ]
    }
    layers {
      layer: "q0"
      layer_class: "attention"
      initial: [ 8, 24, 8 ]
      current: [ 8, 24, 8 ]
    }
  }
)pb";
const char kMetrics[] = R"pb(
  time { seconds: 1000 }
  metrics {
    step: 1250
    total_steps: 5000
    stage: EARLY
    loss: 5.9
    smoothed_loss: 6.0125
    validation_loss: 5.75
    size_parameters: 160000
    size_bytes: 640000
    samples_per_second: 41.26
    synchronized_bytes: 640000
    dense_synchronized_bytes: 16000000
    peak_memory_bytes: 314572800
    target_loss: 5.5
    target_size_parameters: 150000
    eta { seconds: 192 }
  }
)pb";

RunFigures Figures() {
  RunFigures figures;
  figures.Apply(FromText<v1::Job>(kJob));
  for (const char* event : {kRunInfo, kRanks, kMetrics}) {
    figures.Apply(Event(event));
  }
  return figures;
}

TEST(ProgressViewTest, BlockShowsAll) {
  EXPECT_EQ(absl::StrJoin(ProgressBlock(Figures(), 120), "\n"),
            R"(abc  RUNNING
██████░░░░░░░░░░░░░░░░░░ 1,250/5,000  early stage  ETA 3m12s
loss 6.013  validation 5.750 → 5.500
size 625 KiB → 586 KiB  (dense / 25.0)
attention ████████████████████████ rank 13.3 of 13.3
ffn_up    ██████░░░░░░░░░░░░░░░░░░ rank 6.0 of 24.0
41.3 samples/s  625 KiB/step (dense / 25.0)  memory 300 MiB)");
}

TEST(ProgressViewTest, ClicksShowTheAuc) {
  RunFigures figures = Figures();
  figures.Apply(Event(R"pb(run_info {
                             train_samples: 1000
                             validation_samples: 50
                             baseline_loss: 0.6
                             initial_parameters: 10
                             dense_parameters: 20
                             ideal_auc: 0.81234
                           })pb"));
  figures.Apply(Event(R"pb(metrics {
                             step: 1
                             total_steps: 2
                             stage: EARLY
                             loss: 0.5
                             validation_loss: 0.45
                             validation_accuracy: 0.8
                             validation_auc: 0.79876
                             validation_normalized_entropy: 0.75
                           })pb"));
  EXPECT_EQ(ProgressBlock(figures, 120)[2],
            "loss 0.5000  validation 0.4500  AUC 0.7988 of 0.8123");
  const std::string summary = absl::StrJoin(Summary(figures, {}, ""), "\n");
  EXPECT_NE(summary.find("0.7988 of 0.8123"), std::string::npos) << summary;
  EXPECT_NE(summary.find("0.7500"), std::string::npos) << summary;
  // The figures of the result replace those of metrics.
  figures.Apply(Event(R"pb(result {
                             validation_auc: 0.5
                             validation_normalized_entropy: 1
                           })pb"));
  EXPECT_NE(
      absl::StrJoin(Summary(figures, {}, ""), "\n").find("0.5000 of 0.8123"),
      std::string::npos);
}

TEST(ProgressViewTest, DecodersShowPerplexityBitsAndTokens) {
  RunFigures figures;
  v1::Job job = FromText<v1::Job>(kJob);
  job.mutable_spec()->mutable_model()->set_family(v1::ModelSpec::CAUSAL_LM);
  job.mutable_spec()->mutable_objective()->clear_late();
  figures.Apply(job);
  figures.Apply(Event(kRunInfo));
  figures.Apply(Event(R"pb(metrics {
                             step: 1
                             total_steps: 2
                             stage: EARLY
                             loss: 2.5
                             validation_loss: 2.302585
                             validation_accuracy: 0.4
                             validation_perplexity: 10
                             validation_bits_per_byte: 0.875
                             samples_per_second: 41.26
                             tokens_per_second: 12345.6
                             model_flops_utilisation: 0.4121
                           })pb"));
  const auto block = ProgressBlock(figures, 120);
  EXPECT_EQ(block[2],
            "loss 2.500  validation 2.303  perplexity 10.00  0.8750 bits per "
            "byte");
  EXPECT_EQ(block.back(), "41.3 samples/s  12,346 tokens/s  41.2% of peak");
  EXPECT_NE(ProgressLine(figures).find("12,346 tokens/s"), std::string::npos);
  const std::string summary = absl::StrJoin(Summary(figures, {}, ""), "\n");
  for (const char* text : {"unigram baseline 6.500", "validation perplexity",
                           "10.00", "validation bits per byte", "0.8750"}) {
    EXPECT_NE(summary.find(text), std::string::npos) << text << summary;
  }
  figures.Apply(Event(R"pb(result {
                             validation_bits_per_byte: 0.8125
                             test {
                               samples: 7
                               loss: 2
                               accuracy: 0.5
                               perplexity: 7.389
                               bits_per_byte: 0.75
                             }
                           })pb"));
  const std::string ended = absl::StrJoin(Summary(figures, {}, ""), "\n");
  for (const char* text :
       {"0.8125", "perplexity 7.389", "0.7500 bits per byte (7 samples)"}) {
    EXPECT_NE(ended.find(text), std::string::npos) << text << ended;
  }
}

TEST(ProgressViewTest, BlockFitsItsWidth) {
  for (const std::string& line : ProgressBlock(Figures(), 20)) {
    EXPECT_LE(DisplayWidth(line), 20u) << line;
  }
}

TEST(ProgressViewTest, BlockBeforeTheFirstMetrics) {
  RunFigures figures;
  v1::Job job = FromText<v1::Job>(kJob);
  job.set_state(v1::QUEUED);
  job.set_reason("waits for 2 processes\x1b[2J");
  figures.Apply(job);
  EXPECT_EQ(absl::StrJoin(ProgressBlock(figures, 80), "\n"),
            "abc  QUEUED  waits for 2 processes [2J");
}

TEST(ProgressViewTest, PlainLine) {
  EXPECT_EQ(ProgressLine(Figures()),
            "step 1250/5000  early stage  loss 6.013  validation 5.750 → 5.500"
            "  size 625 KiB → 586 KiB  (dense / 25.0)  41.3 samples/s"
            "  625 KiB/step (dense / 25.0)  memory 300 MiB  ETA 3m12s");
}

TEST(ProgressViewTest, EventLines) {
  EXPECT_EQ(EventLine(Event("state_change { state: RUNNING }")), "RUNNING");
  EXPECT_EQ(EventLine(Event(R"pb(state_change {
                                   state: SUCCEEDED
                                   outcome: TARGET_MET
                                   reason: "done"
                                 })pb")),
            "SUCCEEDED TARGET_MET: done");
  EXPECT_EQ(EventLine(Event(R"pb(incident {
                                   failure_class: RANK_LOST
                                   attempt: 1
                                   rank: 1
                                   message: "signal 9"
                                 })pb")),
            "attempt 1 lost: RANK_LOST on member 1: signal 9");
  EXPECT_EQ(EventLine(Event(R"pb(incident {
                                   failure_class: DIVERGED
                                   attempt: 2
                                   rank: -1
                                   message: "step 812 left out"
                                 })pb")),
            "attempt 2 goes on: DIVERGED: step 812 left out");
  EXPECT_EQ(EventLine(Event("dropped { count: 12 }")),
            "(12 progress samples were left out)");
  EXPECT_EQ(EventLine(Event(R"pb(run_info {
                                   train_samples: 1000
                                   validation_samples: 50
                                   baseline_loss: 0.5
                                   initial_parameters: 10
                                   dense_parameters: 20
                                   ideal_auc: 0.8
                                 })pb")),
            "1,000 training and 50 validation samples, 10 parameters (dense: "
            "20), baseline loss 0.5000, ideal AUC 0.8000");
  EXPECT_EQ(EventLine(Event(kRunInfo)),
            "12,345 training and 678 validation samples, vocabulary 4,096, "
            "200,000 parameters (dense: 4,000,000), baseline loss 6.500");
  EXPECT_THAT(
      EventLine(Event(R"pb(run_info {
                             initial_errors { layer: "a" relative_error: 0.1 }
                             initial_errors { layer: "b" relative_error: 0.4 }
                           })pb")),
      ::testing::HasSubstr(
          "2 layers from dense weights with relative error 0.250 "
          "(worst 0.400: b)"));
  EXPECT_EQ(EventLine(Event(kMetrics)), "");
  EXPECT_EQ(EventLine(v1::JobEvent()), "");
}

TEST(ProgressViewTest, SummaryOfAJobThatMetItsTarget) {
  RunFigures figures = Figures();
  figures.Apply(Event(R"pb(result {
                             outcome: TARGET_MET
                             validation_loss: 5.45
                             size_parameters: 140000
                             size_bytes: 560000
                           })pb"));
  v1::Job job = FromText<v1::Job>(kJob);
  job.set_state(v1::SUCCEEDED);
  job.set_outcome(v1::TARGET_MET);
  job.mutable_start_time()->set_seconds(1000);
  job.mutable_end_time()->set_seconds(1192);
  figures.Apply(job);
  EXPECT_EQ(absl::StrJoin(Summary(figures, {}, "/m/abc"), "\n"),
            R"(job                      jobs/abc
outcome                  SUCCEEDED TARGET_MET
time                     3m12s
validation loss          5.450, target 5.500, unigram baseline 6.500
validation perplexity    232.8
size                     547 KiB (140,000 parameters), target 586 KiB, 28.6x smaller than dense (15.26 MiB)
dense                    loss not known: no dense job had these data and this validation
ranks attention          13.3 → 13.3
ranks ffn_up             24.0 → 6.0
gradient bytes per step  625 KiB, dense 15.26 MiB: 25.0x fewer
peak memory per process  300 MiB
model                    /m/abc)");
}

TEST(ProgressViewTest, EnergyIsShownWhereItIsKnown) {
  RunFigures figures = Figures();
  EXPECT_EQ(absl::StrJoin(Summary(figures, {}, ""), "\n").find("energy"),
            std::string::npos);
  figures.Apply(Event("metrics { step: 50 energy_joules: 1234.5 }"));
  EXPECT_NE(absl::StrJoin(Summary(figures, {}, ""), "\n")
                .find("1.23 kJ, 24.69 J per step"),
            std::string::npos);
  figures.Apply(Event("result { energy_joules: 2000000 }"));
  EXPECT_NE(
      absl::StrJoin(Summary(figures, {}, ""), "\n").find("2.00 MJ, 40.00 kJ"),
      std::string::npos);
}

TEST(ProgressViewTest, AListOfTargets) {
  RunFigures figures = Figures();
  v1::Job job = FromText<v1::Job>(kJob);
  *job.mutable_spec()->mutable_objective()->mutable_late() =
      FromText<v1::LateStage>(R"pb(
        targets { target_loss: 5.5 target_ratio: 0.8 }
        targets { target_loss: 5.75 target_ratio: 0.5 }
      )pb");
  figures.Apply(job);
  figures.Apply(Event(R"pb(metrics {
                             step: 3000
                             total_steps: 5000
                             stage: LATE
                             target_index: 1
                             target_loss: 5.75
                             target_size_parameters: 100000
                           })pb"));
  EXPECT_NE(ProgressLine(figures).find("late stage, target 2 of 2"),
            std::string::npos);
  EXPECT_NE(absl::StrJoin(ProgressBlock(figures, 120), "\n")
                .find("3,000/5,000  late stage, target 2 of 2"),
            std::string::npos);
  figures.Apply(Event(R"pb(result {
                             outcome: TARGET_MISSED
                             validation_loss: 5.8
                             size_parameters: 99900
                             size_bytes: 399600
                             targets {
                               target_loss: 5.5
                               target_size_parameters: 160000
                               outcome: TARGET_MET
                               steps: 1234
                               validation_loss: 5.45
                               size_parameters: 159900
                               size_bytes: 639600
                             }
                             targets {
                               target_loss: 5.75
                               target_size_parameters: 100000
                               outcome: TARGET_MISSED
                               steps: 2000
                               validation_loss: 5.8
                               size_parameters: 99900
                               size_bytes: 399600
                             }
                           })pb"));
  const std::string summary = absl::StrJoin(Summary(figures, {}, ""), "\n");
  EXPECT_NE(summary.find("5.800, target 5.750"), std::string::npos) << summary;
  EXPECT_NE(summary.find("target 1                 met: validation loss 5.450, "
                         "target 5.500; size 625 KiB, target 625 KiB; 1,234 "
                         "steps"),
            std::string::npos)
      << summary;
  EXPECT_NE(summary.find("target 2                 missed: validation loss "
                         "5.800, target 5.750; size 390 KiB, target 391 KiB; "
                         "2,000 steps"),
            std::string::npos)
      << summary;
}

TEST(ProgressViewTest, SummaryOfAJobThatFailedBeforeItBegan) {
  RunFigures figures;
  figures.Apply(FromText<v1::Job>(R"pb(
    name: "jobs/abc"
    state: FAILED
    failure { failure_class: DATA message: "no file matches" }
  )pb"));
  EXPECT_EQ(absl::StrJoin(Summary(figures, {}, ""), "\n"),
            "job      jobs/abc\n"
            "outcome  FAILED (DATA)\n"
            "failure  no file matches");
}

TEST(ProgressViewTest, AccuracyOfClassifiers) {
  RunFigures figures;
  figures.Apply(Event(R"pb(metrics {
                             step: 1
                             total_steps: 2
                             loss: 1
                             validation_loss: 1
                             validation_accuracy: 0.4567
                           })pb"));
  EXPECT_NE(ProgressLine(figures).find("accuracy 45.7%"), std::string::npos);
  const std::string summary = absl::StrJoin(Summary(figures, {}, ""), "\n");
  EXPECT_NE(summary.find("45.67%"), std::string::npos) << summary;
}

// A target other than a loss stands beside its figure, and so does the test
// set.
TEST(ProgressViewTest, AccuracyTargetsAndTestSets) {
  RunFigures figures;
  figures.Apply(FromText<v1::Job>(R"pb(
    name: "jobs/abc"
    spec {
      model { family: ENCODER_CLASSIFIER }
      objective { late { target_accuracy: 0.8 target_ratio: 0.5 } }
    }
    state: RUNNING
  )pb"));
  figures.Apply(Event(R"pb(metrics {
                             step: 1
                             total_steps: 2
                             loss: 1
                             validation_loss: 1
                             validation_accuracy: 0.4567
                             validation_f1: 0.25
                           })pb"));
  EXPECT_NE(ProgressLine(figures).find("accuracy 45.7% → 80.00%"),
            std::string::npos)
      << ProgressLine(figures);
  figures.Apply(
      Event(R"pb(result {
                   outcome: TARGET_MET
                   validation_loss: 0.5
                   validation_accuracy: 0.8125
                   validation_f1: 0.75
                   validation_mcc: 0.625
                   test { samples: 872 loss: 0.5 accuracy: 0.7 f1: 0.65 }
                 })pb"));
  const std::string summary = absl::StrJoin(Summary(figures, {}, ""), "\n");
  for (const char* line :
       {"validation loss      0.5000\n",
        "validation accuracy  81.25%, target 80.00%\n",
        "validation F1        0.7500\n", "validation MCC       0.6250\n",
        "test set             loss 0.5000, accuracy 70.00%, F1 0.6500 (872 "
        "samples)"}) {
    EXPECT_NE(summary.find(line), std::string::npos) << summary;
  }
}

TEST(ProgressViewTest, AListOfOtherTargets) {
  RunFigures figures;
  figures.Apply(FromText<v1::Job>(R"pb(
    name: "jobs/abc"
    spec {
      objective {
        late {
          targets { target_auc: 0.8 target_ratio: 0.5 }
          targets { target_perplexity: 20 target_ratio: 0.5 }
        }
      }
    }
  )pb"));
  figures.Apply(
      Event(R"pb(result {
                   targets {
                     outcome: TARGET_MET
                     validation_loss: 0.5
                     validation_quality: 0.8125
                   }
                   targets { validation_loss: 3 validation_quality: 20.0855 }
                 })pb"));
  const std::string summary = absl::StrJoin(Summary(figures, {}, ""), "\n");
  EXPECT_NE(summary.find("met: validation AUC 0.8125, target 0.8000;"),
            std::string::npos)
      << summary;
  EXPECT_NE(summary.find("missed: validation perplexity 20.09, target 20.00;"),
            std::string::npos)
      << summary;
}

TEST(RunFiguresTest, KeepsTheHighestMemoryAndCountsLostEvents) {
  RunFigures figures = Figures();
  figures.Apply(Event("metrics { step: 2 peak_memory_bytes: 5 }"));
  figures.Apply(Event("dropped { count: 3 }"));
  figures.Apply(Event("dropped { count: 4 }"));
  EXPECT_EQ(figures.peak_memory_bytes(), 314572800);
  EXPECT_EQ(figures.dropped_events(), 7);
  // The last validation loss stays known between validations.
  EXPECT_EQ(figures.validation_loss(), 5.75);
}

TEST(TextFormatTest, FiguresAsPeopleWriteThem) {
  EXPECT_EQ(FormatJoules(0.5), "0.50 J");
  EXPECT_EQ(FormatJoules(123456), "123 kJ");
  EXPECT_EQ(DurationText(absl::Seconds(7)), "7s");
  EXPECT_EQ(DurationText(absl::Seconds(192)), "3m12s");
  EXPECT_EQ(DurationText(absl::Minutes(125)), "2h05m");
  EXPECT_EQ(DurationText(absl::Hours(99)), "4d03h");
  EXPECT_EQ(DurationText(-absl::Seconds(5)), "0s");
  EXPECT_EQ(DurationText(absl::InfiniteDuration()), "100000d00h");
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1536), "1.50 KiB");
  EXPECT_EQ(FormatCount(-1234567), "-1,234,567");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatShort(1026528), "1.03M");
  EXPECT_EQ(Printable("a\x1b[1m\n\u009b!"), "a [1m   !");
  EXPECT_EQ(CutToWidth("→→→", 2), "→→");
  EXPECT_EQ(FormatTable({{"A", "B"}, {"→→→", "x"}}), "A    B\n→→→  x\n");
}

}  // namespace
}  // namespace comera::client
