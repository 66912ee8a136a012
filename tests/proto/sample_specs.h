// Valid job specifications that tests start from.
#ifndef COMERA_TESTS_PROTO_SAMPLE_SPECS_H_
#define COMERA_TESTS_PROTO_SAMPLE_SPECS_H_

#include <string>

#include "comera/v1/job.pb.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace comera {

inline v1::JobSpec SpecFromText(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return spec;
}

// A masked language model on source code, with everything compressed, and
// targets.
inline v1::JobSpec MaskedLmSpec() {
  return SpecFromText(R"pb(
    display_name: "code"
    labels { key: "team" value: "a" }
    model { family: MASKED_LM layers: 2 hidden: 48 ffn: 192 heads: 4 }
    data {
      code_directory { roots: "/usr/include" globs: "*.h" }
      tokenizer { kind: BYTE_BPE train_vocabulary_size: 1000 }
      max_length: 64
    }
    compression {
      embedding {
        input_modes: [ 10, 10, 10 ]
        output_modes: [ 4, 3, 4 ]
        ranks: [ 8, 8 ]
      }
      attention {
        input_modes: [ 6, 8 ]
        output_modes: [ 8, 6 ]
        ranks: [ 6, 12, 6 ]
      }
      ffn_up {
        input_modes: [ 6, 8 ]
        output_modes: [ 12, 16 ]
        ranks: 12
      }
      ffn_down {
        input_modes: [ 16, 12 ]
        output_modes: [ 8, 6 ]
        ranks: 12
      }
      output {
        input_modes: [ 6, 8 ]
        output_modes: [ 32, 32 ]
        ranks: 12
      }
    }
    objective {
      early { steps: 100 }
      late { target_loss: 3.5 target_ratio: 0.8 max_steps: 100 }
    }
    training { batch_size: 32 seed: 1 }
    resources { processes: 2 }
  )pb");
}

// A sentence pair classifier with modes chosen automatically and no targets.
inline v1::JobSpec ClassifierSpec() {
  return SpecFromText(R"pb(
    model {
      family: ENCODER_CLASSIFIER
      layers: 2
      hidden: 48
      heads: 4
      classes: 3
    }
    data {
      glue_tsv {
        train: "/data/train.tsv"
        validation: "/data/dev.tsv"
        labels: [ "entailment", "neutral", "contradiction" ]
      }
      tokenizer { kind: WORDPIECE vocabulary_file: "/data/vocab.txt" }
      max_length: 128
    }
    objective { early { steps: 100 } }
    training { batch_size: 32 }
  )pb");
}

// Click prediction on a synthetic log, with the largest tables compressed and
// no targets.
inline v1::JobSpec DlrmSpec() {
  return SpecFromText(R"pb(
    model {
      family: DLRM
      dlrm {
        bottom_mlp: [ 64, 16 ]
        top_mlp: [ 64, 1 ]
        compressed_tables: 2
      }
    }
    data {
      synthetic_clicks {
        train_rows: 1000
        validation_rows: 100
        seed: 1
        table_rows: [ 100, 3000, 10, 2000 ]
      }
    }
    compression {
      table {
        output_modes: [ 4, 4 ]
        ranks: 8
      }
    }
    objective { early { steps: 100 } }
    training { batch_size: 32 }
  )pb");
}

// A LLaMA on plain text, dense, with modes chosen automatically and no targets.
inline v1::JobSpec CausalLmSpec() {
  return SpecFromText(R"pb(
    model { family: CAUSAL_LM layers: 2 hidden: 48 heads: 4 kv_heads: 2 }
    data {
      text { train: "/data/*.txt" }
      tokenizer { kind: BYTE_BPE train_vocabulary_size: 1000 }
      max_length: 64
    }
    compression { method: DENSE }
    objective { early { steps: 100 } }
    training { batch_size: 32 }
    resources { processes: 2 }
  )pb");
}

// A GPT-2 with otherwise the same job.
inline v1::JobSpec Gpt2Spec() {
  v1::JobSpec spec = CausalLmSpec();
  spec.mutable_model()->set_architecture(v1::ModelSpec::GPT2);
  spec.mutable_model()->clear_kv_heads();
  return spec;
}

}  // namespace comera

#endif  // COMERA_TESTS_PROTO_SAMPLE_SPECS_H_
