// Lists the paths in a specification's data, tokenizer, initial weights and
// program.

#include "proto/data_paths.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace comera {
namespace {

class Collector {
 public:
  void Add(std::string field, std::string* path,
           PathKind kind = PathKind::kFile) {
    if (!path->empty()) paths_.push_back({std::move(field), path, kind});
  }

  void AddAll(const std::string& field,
              google::protobuf::RepeatedPtrField<std::string>* list,
              PathKind kind) {
    for (int i = 0; i < list->size(); ++i) {
      Add(absl::StrCat(field, "[", i, "]"), list->Mutable(i), kind);
    }
  }

  std::vector<DataPath> Release() { return std::move(paths_); }

 private:
  std::vector<DataPath> paths_;
};

void AddData(v1::DataSpec* data, Collector* collector) {
  if (data->has_glue_tsv()) {
    v1::GlueTsv* glue = data->mutable_glue_tsv();
    collector->Add("data.glue_tsv.train", glue->mutable_train());
    collector->Add("data.glue_tsv.validation", glue->mutable_validation());
    collector->Add("data.glue_tsv.test", glue->mutable_test());
  }
  if (data->has_jsonl()) {
    v1::Jsonl* jsonl = data->mutable_jsonl();
    collector->Add("data.jsonl.train", jsonl->mutable_train());
    collector->Add("data.jsonl.validation", jsonl->mutable_validation());
    collector->Add("data.jsonl.test", jsonl->mutable_test());
  }
  if (data->has_labelled_text()) {
    v1::LabelledText* labelled = data->mutable_labelled_text();
    collector->Add("data.labelled_text.train", labelled->mutable_train());
    collector->Add("data.labelled_text.validation",
                   labelled->mutable_validation());
    collector->Add("data.labelled_text.test", labelled->mutable_test());
  }
  if (data->has_text()) {
    v1::Text* text = data->mutable_text();
    for (const auto& [field, files] :
         {std::pair("data.text.train", text->mutable_train()),
          std::pair("data.text.validation", text->mutable_validation()),
          std::pair("data.text.test", text->mutable_test())}) {
      collector->AddAll(field, files, PathKind::kFiles);
    }
  }
  if (data->has_token_shards()) {
    v1::TokenShards* shards = data->mutable_token_shards();
    for (const auto& [field, folder] :
         {std::pair("data.token_shards.train", shards->mutable_train()),
          std::pair("data.token_shards.validation",
                    shards->mutable_validation()),
          std::pair("data.token_shards.test", shards->mutable_test())}) {
      collector->Add(field, folder, PathKind::kFolder);
    }
  }
  if (data->has_code_directory()) {
    collector->AddAll("data.code_directory.roots",
                      data->mutable_code_directory()->mutable_roots(),
                      PathKind::kFolder);
  }
  if (data->has_criteo_tsv()) {
    collector->AddAll("data.criteo_tsv.files",
                      data->mutable_criteo_tsv()->mutable_files(),
                      PathKind::kFile);
  }
  if (data->has_tokenizer()) {
    v1::TokenizerSpec* tokenizer = data->mutable_tokenizer();
    collector->Add("data.tokenizer.vocabulary_file",
                   tokenizer->mutable_vocabulary_file());
    collector->Add("data.tokenizer.merges_file",
                   tokenizer->mutable_merges_file());
    collector->Add("data.tokenizer.tokenizer_file",
                   tokenizer->mutable_tokenizer_file());
  }
}

void AddProgram(v1::ProgramSpec* program, Collector* collector) {
  collector->Add("program.files", program->mutable_files(), PathKind::kFolder);
  // Maps have no order of their own.
  std::set<std::string> names;
  for (const auto& [name, path] : program->data()) names.insert(name);
  for (const std::string& name : names) {
    collector->Add(absl::StrCat("program.data[", name, "]"),
                   &(*program->mutable_data())[name], PathKind::kFileOrFolder);
  }
}

}  // namespace

std::vector<DataPath> DataPaths(v1::JobSpec* spec) {
  Collector collector;
  if (spec->has_data()) AddData(spec->mutable_data(), &collector);
  if (spec->has_initial_weights()) {
    collector.Add("initial_weights.safetensors",
                  spec->mutable_initial_weights()->mutable_safetensors(),
                  PathKind::kFileOrFolder);
  }
  if (spec->has_program()) AddProgram(spec->mutable_program(), &collector);
  return collector.Release();
}

}  // namespace comera
