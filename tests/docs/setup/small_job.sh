# shellcheck shell=bash
# $HOME/small.yaml: the quickstart's job, cut short to a few seconds.
comera validate docs/examples/quickstart_code_mlm.yaml --print -o yaml \
  --set data.code_directory.max_bytes=1000000 \
  --set data.tokenizer.train_vocabulary_size=1024 \
  --set objective.early.steps=60 --set objective.late.target_loss=7 \
  --set objective.late.target_ratio=0.9 --set objective.late.max_steps=80 \
  --set objective.late.continue_after_met=false \
  --set training.validate_every_steps=20 \
  --set training.validation_samples=64 --set training.batch_size=16 \
  --set resources.processes=1 \
  >"$HOME/small.yaml"
# And with two targets.
sed '/^    target_ratio:/d
  s/^    target_loss:.*/    targets: [{target_loss: 7, target_ratio: 0.9}, {target_loss: 7, target_ratio: 0.8}]/' \
  "$HOME/small.yaml" >"$HOME/two_targets.yaml"
