// Checks the validation of DLRM jobs.
#include <vector>

#include "gtest/gtest.h"
#include "proto/job_defaults.h"
#include "proto/validation/job_validation.h"
#include "tests/proto/sample_specs.h"
#include "tests/proto/validation/bad_specs.h"

namespace comera {
namespace {

v1::DlrmSpec& Shape(Spec& s) { return *s.mutable_model()->mutable_dlrm(); }
v1::SyntheticClicks& Log(Spec& s) {
  return *s.mutable_data()->mutable_synthetic_clicks();
}
v1::CriteoTsv& Criteo(Spec& s) {
  return *s.mutable_data()->mutable_criteo_tsv();
}
v1::CompressionSpec& Compression(Spec& s) { return *s.mutable_compression(); }

v1::JobSpec CriteoSpec() {
  v1::JobSpec spec = DlrmSpec();
  Criteo(spec).add_files("/data/train.txt");
  return spec;
}

TEST(DlrmValidationTest, SoundSpecsPass) {
  for (const v1::JobSpec& spec : {DlrmSpec(), CriteoSpec()}) {
    EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
    EXPECT_EQ(Describe(ValidateJobSpec(WithDefaults(spec))), "");
  }
  v1::JobSpec spec = CriteoSpec();
  Criteo(spec).set_max_table_rows(2);
  Shape(spec).set_compressed_tables(0);
  Compression(spec).mutable_table()->clear_output_modes();
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
}

TEST(DlrmValidationTest, RefusesBadShapesAndLogs) {
  ExpectRefused(
      DlrmSpec(),
      {
          {"model.dlrm.bottom_mlp[0]",
           [](Spec& s) { Shape(s).set_bottom_mlp(0, 0); }},
          {"model.dlrm.bottom_mlp[1]",
           [](Spec& s) { Shape(s).set_bottom_mlp(1, kHuge); }},
          {"model.dlrm.bottom_mlp",
           [](Spec& s) {
             for (int i = 0; i < 70; ++i) Shape(s).add_bottom_mlp(1);
           }},
          {"model.dlrm.top_mlp[0]",
           [](Spec& s) { Shape(s).set_top_mlp(0, -1); }},
          {"model.dlrm.top_mlp", [](Spec& s) { Shape(s).set_top_mlp(1, 2); }},
          {"model.dlrm.compressed_tables",
           [](Spec& s) { Shape(s).set_compressed_tables(-1); }},
          {"model.dlrm.min_compressed_width",
           [](Spec& s) { Shape(s).set_min_compressed_width(-1); }},
          {"data.synthetic_clicks.train_rows",
           [](Spec& s) { Log(s).set_train_rows(0); }},
          {"data.synthetic_clicks.train_rows",
           [](Spec& s) { Log(s).set_train_rows(kHuge); }},
          {"data.synthetic_clicks.validation_rows",
           [](Spec& s) { Log(s).set_validation_rows(-5); }},
          {"data.synthetic_clicks.dense_features",
           [](Spec& s) { Log(s).set_dense_features(0); }},
          {"data.synthetic_clicks.table_rows[2]",
           [](Spec& s) { Log(s).set_table_rows(2, 0); }},
          {"data.synthetic_clicks.table_rows[3]",
           [](Spec& s) { Log(s).set_table_rows(3, 1 << 25); }},
          {"data.synthetic_clicks.table_rows",
           [](Spec& s) {
             for (int i = 0; i < 2000; ++i) Log(s).add_table_rows(5);
           }},
          {"data", [](Spec& s) { s.mutable_data()->clear_format(); }},
          {"data", [](Spec& s) { s.mutable_data()->mutable_jsonl(); }},
      });
  ExpectRefused(
      CriteoSpec(),
      {
          {"data.criteo_tsv.files", [](Spec& s) { Criteo(s).clear_files(); }},
          {"data.criteo_tsv.files[0]",
           [](Spec& s) { Criteo(s).set_files(0, "train.txt"); }},
          {"data.criteo_tsv.files[1]",
           [](Spec& s) { Criteo(s).add_files(""); }},
          {"data.criteo_tsv.parts", [](Spec& s) { Criteo(s).set_parts(1); }},
          {"data.criteo_tsv.parts", [](Spec& s) { Criteo(s).set_parts(0); }},
          {"data.criteo_tsv.max_table_rows",
           [](Spec& s) { Criteo(s).set_max_table_rows(1); }},
          {"data.criteo_tsv.max_table_rows",
           [](Spec& s) { Criteo(s).set_max_table_rows(-1); }},
      });
}

TEST(DlrmValidationTest, RefusesWhatOnlyEncodersHave) {
  ExpectRefused(
      DlrmSpec(),
      {
          {"model.layers", [](Spec& s) { s.mutable_model()->set_layers(2); }},
          {"model.hidden", [](Spec& s) { s.mutable_model()->set_hidden(48); }},
          {"model.hidden",
           [](Spec& s) { s.mutable_model()->set_hidden(kHuge); }},
          {"model.ffn", [](Spec& s) { s.mutable_model()->set_ffn(48); }},
          {"model.heads", [](Spec& s) { s.mutable_model()->set_heads(4); }},
          {"model.max_positions",
           [](Spec& s) { s.mutable_model()->set_max_positions(4); }},
          {"model.segments",
           [](Spec& s) { s.mutable_model()->set_segments(2); }},
          {"model.classes", [](Spec& s) { s.mutable_model()->set_classes(2); }},
          {"model.dropout",
           [](Spec& s) { s.mutable_model()->set_dropout(0.1); }},
          {"model.dropout_off",
           [](Spec& s) { s.mutable_model()->set_dropout_off(true); }},
          {"model.tie_output",
           [](Spec& s) { s.mutable_model()->set_tie_output(true); }},
          {"training.phases",
           [](Spec& s) { s.mutable_training()->add_phases()->set_steps(100); }},
          {"data.tokenizer",
           [](Spec& s) { s.mutable_data()->mutable_tokenizer(); }},
          {"data.max_length",
           [](Spec& s) { s.mutable_data()->set_max_length(128); }},
          {"data.mask_probability",
           [](Spec& s) { s.mutable_data()->set_mask_probability(0.1); }},
          {"compression.embedding",
           [](Spec& s) { Compression(s).mutable_embedding(); }},
          {"compression.attention",
           [](Spec& s) { Compression(s).mutable_attention(); }},
          {"compression.ffn_up",
           [](Spec& s) { Compression(s).mutable_ffn_up(); }},
          {"compression.ffn_down",
           [](Spec& s) { Compression(s).mutable_ffn_down(); }},
          {"compression.head", [](Spec& s) { Compression(s).mutable_head(); }},
          {"compression.output",
           [](Spec& s) { Compression(s).mutable_output(); }},
      });
}

TEST(DlrmValidationTest, EncodersRefuseWhatOnlyDlrmHas) {
  for (const v1::JobSpec& spec : {MaskedLmSpec(), ClassifierSpec()}) {
    ExpectRefused(
        spec,
        {
            {"model.dlrm", [](Spec& s) { Shape(s); }},
            {"data.criteo_tsv", [](Spec& s) { Criteo(s).add_files("/f"); }},
            {"data.synthetic_clicks", [](Spec& s) { Log(s); }},
            {"compression.table",
             [](Spec& s) { Compression(s).mutable_table(); }},
            {"compression.mlp", [](Spec& s) { Compression(s).mutable_mlp(); }},
        });
  }
}

TEST(DlrmValidationTest, ChecksModesAndRanks) {
  const auto table = [](Spec& s) -> v1::LayerCompression& {
    return *Compression(s).mutable_table();
  };
  ExpectRefused(DlrmSpec(),
                {
                    {"compression.table.output_modes",
                     [=](Spec& s) { table(s).add_output_modes(2); }},
                    {"compression.table.output_modes",
                     [=](Spec& s) {
                       table(s).clear_output_modes();
                       table(s).add_input_modes(100);
                       table(s).add_input_modes(100);
                     }},
                    {"compression.table.input_modes",
                     [=](Spec& s) {
                       table(s).add_input_modes(50);
                       table(s).add_input_modes(50);
                     }},
                    {"compression.table.ranks",
                     [=](Spec& s) {
                       table(s).add_ranks(3);
                       table(s).add_ranks(3);
                     }},
                    {"compression.table.ranks[0]",
                     [=](Spec& s) { table(s).set_ranks(0, 0); }},
                    {"compression.mlp",
                     [](Spec& s) {
                       Compression(s).mutable_mlp()->add_input_modes(8);
                       Compression(s).mutable_mlp()->add_output_modes(8);
                     }},
                    {"compression.mlp.ranks",
                     [](Spec& s) {
                       Compression(s).mutable_mlp()->add_ranks(8);
                       Compression(s).mutable_mlp()->add_ranks(8);
                     }},
                });
}

TEST(DlrmValidationTest, RefusesTargetsOutOfReach) {
  v1::JobSpec spec = DlrmSpec();
  v1::LateStage& late = *spec.mutable_objective()->mutable_late();
  late.set_target_loss(0.5);
  late.set_max_steps(10);
  // Small tables 110 x 16; bottom 13 x 64, 64 x 16; top (16 + 10) x 64, 64.
  const int64_t fixed =
      110 * 16 + (13 * 64 + 64) + (64 * 16 + 16) + (26 * 64 + 64) + (64 + 1);
  late.set_target_parameters(fixed);
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
  ExpectRefused(
      spec, {{"objective.late.target_parameters", [=](Spec& s) {
                s.mutable_objective()->mutable_late()->set_target_parameters(
                    fixed - 1);
              }}});
  // Dense tables keep their size.
  ExpectRefused(spec, {{"objective.late.target_parameters", [=](Spec& s) {
                          Compression(s).mutable_table()->Clear();
                          Compression(s).mutable_table()->set_dense(true);
                        }}});
}

}  // namespace
}  // namespace comera
