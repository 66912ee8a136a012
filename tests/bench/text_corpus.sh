#!/bin/sh
# Makes a corpus of a size from the files of a directory, repeated; prepares it
# as token shards; reads training batches from the shards and from memory; and
# prints resident memory, the speed of preparation, and the ratio of reading.
# Aims, for 10 GB of text: below 500 MB resident, at least 0.9.
#   tests/bench/text_corpus.sh [--mb=50] [--from=/usr/include] [--glob=*.h] \
#     [--vocabulary=8000] [--threads=N] [--keep=FOLDER]
# Each repetition of a file is a document of its own. --keep: work there, and
# leave the corpus and the shards.
set -eu
cd "$(dirname "$0")/../.."

mb=50
from=/usr/include
glob='*.h'
vocabulary=8000
threads=$(nproc)
keep=
for argument; do
  case "$argument" in
    --mb=*) mb=${argument#*=} ;;
    --from=*) from=${argument#*=} ;;
    --glob=*) glob=${argument#*=} ;;
    --vocabulary=*) vocabulary=${argument#*=} ;;
    --threads=*) threads=${argument#*=} ;;
    --keep=*) keep=${argument#*=} ;;
    --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "unknown argument: $argument (see --help)" >&2; exit 2 ;;
  esac
done

bazel build -c opt //worker/trainer:comera-trainer //tests/bench:text_corpus >&2
if [ -n "$keep" ]; then
  work=$keep
  mkdir -p "$work"
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
/usr/bin/python3 - "$work" "$mb" "$from" "$glob" "$vocabulary" "$threads" \
  <<'PYTHON'
import fnmatch
import json
import os
import resource
import subprocess
import sys
import time

work, megabytes, source, glob, vocabulary, threads = sys.argv[1:]
limit = int(megabytes) * 1000 * 1000


def texts():
    """The texts of the directory's files, again and again."""
    paths = sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(source)
        for name in fnmatch.filter(names, glob))
    while True:
        found = False
        for path in paths:
            try:
                with open(path, encoding="utf-8") as file:
                    text = file.read()
            except (OSError, UnicodeDecodeError):
                continue
            if text and "\0" not in text:
                found = True
                yield text
        if not found:
            sys.exit(f"{source}: no text in {glob}")


corpus = os.path.join(work, "corpus.jsonl")
if not os.path.exists(corpus) or os.path.getsize(corpus) < limit:
    print(f"writing {megabytes} MB of text ...", file=sys.stderr)
    with open(corpus, "w", encoding="utf-8") as out:
        size = 0
        for text in texts():
            if size >= limit:
                break
            out.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
            size += len(text.encode())

shards = os.path.join(work, "shards")
request = os.path.join(work, "request.json")
with open(request, "w", encoding="utf-8") as out:
    json.dump({"sources": [corpus], "to": shards, "kind": "byte_bpe",
               "vocabulary": int(vocabulary), "threads": int(threads),
               "force": True}, out)
print("preparing ...", file=sys.stderr)
begin = tokenising = time.monotonic()
result = {}
with subprocess.Popen(
        ["bazel-bin/worker/trainer/comera-trainer",
         f"--prepare-data={request}"], stdout=subprocess.PIPE,
        text=True) as trainer:
    for line in trainer.stdout:
        said = json.loads(line)
        if said.get("what") == "opening the tokenizer":
            tokenising = time.monotonic()
        result = said.get("result", result)
end = time.monotonic()
if trainer.returncode != 0:
    sys.exit("the preparation failed")
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def read(place):
    """Figures of reading from a place."""
    done = subprocess.run(
        ["bazel-bin/tests/bench/text_corpus", f"--shards={shards}",
         f"--from={place}"], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


print("reading ...", file=sys.stderr)
memory, disk = read("memory"), read("shards")
tokens = result["tokens"]
print(f"text                    {result['text_bytes'] / 1e6:.0f} MB, "
      f"{result['documents']:,} documents, {tokens:,} tokens")
print(f"preparation             {end - begin:.1f} s with {threads} threads: "
      f"{tokens / (end - begin):,.0f} tokens/s, vocabulary included; "
      f"{tokens / (end - tokenising):,.0f} tokens/s without")
print(f"preparation, peak       {peak / 1e6:.0f} MB resident")
print(f"opening and checking    {disk['open_seconds']:.1f} s")
for place, figures in (("memory", memory), ("shards", disk)):
    print(f"reading from {place}     "
          f"{figures['tokens_per_second']:,.0f} tokens/s, "
          f"{figures['resident_bytes'] / 1e6:.0f} MB resident, "
          f"{figures['peak_bytes'] / 1e6:.0f} MB at most")
print(f"shards / memory         "
      f"{disk['tokens_per_second'] / memory['tokens_per_second']:.2f}")
PYTHON
