// Declares the flags and environment variables of comera-worker.

#include "worker/main/worker_flags.h"

#include "absl/time/time.h"

namespace comera::worker {
namespace {

std::string CheckDuration(const std::string& text) {
  absl::Duration duration;
  if (absl::ParseDuration(text, &duration) && duration > absl::ZeroDuration()) {
    return "";
  }
  return "\"" + text + "\" is not a positive duration, e.g. 90s or 10m";
}

std::string CheckLease(const std::string& text) {
  absl::Duration duration;
  if (absl::ParseDuration(text, &duration) &&
      (duration == absl::ZeroDuration() || duration >= absl::Seconds(1))) {
    return "";
  }
  return "\"" + text + "\" is neither 0 nor a duration from 1s on, e.g. 10m";
}

}  // namespace

void AddFlags(CLI::App& app, WorkerFlags& flags) {
  app.add_option("--server", flags.server,
                 "Coordinator, HOST:PORT; of several, all, with commas")
      ->envname("COMERA_SERVER")
      ->capture_default_str();
  app.add_option("--name", flags.name,
                 "Name of this worker, [a-z0-9-]{1,63} (default: host name)");
  app.add_option("--address", flags.address,
                 "Address or host name at which other machines' members reach "
                 "this one, for gangs across workers (default: loopback)");
  app.add_option(
         "--slots", flags.slots,
         "Members to run on the CPU at once; 0: one per two cores, where "
         "GPUs are offered none")
      ->capture_default_str();
  app.add_option("--gpus", flags.gpus,
                 "GPUs to offer, a slot each: auto (all, if this program was "
                 "built with CUDA), none, or a number")
      ->capture_default_str();
  app.add_option("--data_dir", flags.data_dir,
                 "Folder for checkpoints, logs and caches")
      ->capture_default_str();
  app.add_option("--cache_bytes", flags.cache_bytes,
                 "Bytes of datasets' files to keep at most; those not used for "
                 "longest go first")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--rack", flags.rack,
                 "Label of the rack or switch: gangs are packed by it");
  app.add_option("--trainer", flags.trainer,
                 "Path of comera-trainer (default: beside this program, or in "
                 "trainer/ there)");
  app.add_option("--ca", flags.security.ca_file,
                 "Authority of the coordinator's certificate: PEM file, or "
                 "system; turns TLS on")
      ->envname("COMERA_CA");
  app.add_option("--cert", flags.security.certificate_file,
                 "This worker's certificate, PEM file");
  app.add_option("--key", flags.security.key_file, "Its key, PEM file");
  app.add_option("--token_file", flags.security.token_file,
                 "File with a token for workers; read again when it changes")
      ->envname("COMERA_TOKEN_FILE");
  app.add_flag("--insecure_token", flags.security.insecure_token,
               "Send the token unencrypted beyond this machine");
  app.add_option(
      "--member_user", flags.member_user,
      "Run members as this user (needs root; default: the daemon's)");
  app.add_option("--member_landlock", flags.member_landlock,
                 "on: members may use their own job's files, its data and "
                 "libraries only, where the kernel has Landlock; off: whatever "
                 "their user may; auto: on where no GPU is offered")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  app.add_option("--member_memory_limit", flags.member_memory_limit,
                 "on: members of jobs without resources.memory_bytes have "
                 "limits too: on the CPU half as much again as is planned, and "
                 "a GiB; in a control group an equal share of nine tenths of "
                 "the machine's memory; off: they have none")
      ->default_str("on");
  app.add_flag("--allow_programs", flags.allow_programs,
               "Run jobs with a program of their user's own, which may do here "
               "whatever members may (docs/programs.md)");
  app.add_flag(
      "--rank_cgroups", flags.rank_cgroups,
      "Give each member a control group (cgroup v2) below the daemon's, "
      "with limits for memory, processes and CPU where they can be "
      "set");
  app.add_option("--data_root", flags.data_roots,
                 "Folder below which jobs may read files of this machine, but "
                 "for the worker's own; repeatable, / for all (default: none, "
                 "uploaded datasets only)");
  app.add_option("--data_url", flags.data_urls,
                 "Prefix of URLs from which jobs may read data, "
                 "https://HOST/FOLDER/ or s3://BUCKET/FOLDER/; repeatable "
                 "(default: none)");
  app.add_option("--data_ca", flags.data_ca,
                 "Authorities of the certificates of these servers and of the "
                 "checkpoint store's, PEM file (default: the system's)");
  app.add_option("--s3_endpoint", flags.s3_endpoint,
                 "http[s]://HOST[:PORT] of a service that speaks S3 (default: "
                 "AWS)");
  app.add_option("--s3_region", flags.s3_region, "Region of S3")
      ->capture_default_str();
  app.add_option("--s3_credentials_file", flags.s3_credentials_file,
                 "Key for S3: file in the format of AWS's tools, profile "
                 "default, that only this user may read (default: "
                 "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and "
                 "AWS_SESSION_TOKEN in the environment; without them, public "
                 "objects only)");
  app.add_option("--grace", flags.grace,
                 "Seconds from SIGTERM to SIGKILL when a member is stopped")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--orphan_after", flags.orphan_after,
                 "Members train on for this long without the coordinator, then "
                 "save what they have and end")
      ->check(CheckDuration)
      ->capture_default_str();
  app.add_option("--member_lease", flags.member_lease,
                 "When this daemon ends, members train on for this long, for "
                 "the next one here to go on with them; after that they save "
                 "what they have and end; 0: they end with it")
      ->envname("COMERA_MEMBER_LEASE")
      ->check(CheckLease)
      ->capture_default_str();
  app.add_option("--checkpoint_store", flags.checkpoint_store,
                 "Where durable checkpoints go: a folder of a file system that "
                 "all workers share, or s3://BUCKET/FOLDER with --s3_endpoint, "
                 "--s3_region and --s3_credentials_file (default: nowhere)");
  app.add_option("--replica_memory", flags.replica_memory_mib,
                 "MiB of memory for copies of other workers' checkpoints; 0: "
                 "none are kept")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_flag("--insecure_peers", flags.insecure_peers,
               "Let workers of other machines fetch and send checkpoints, and "
               "clients ask for predictions, at --address unencrypted; for "
               "networks that nobody else can reach");
  app.add_option("--metrics_listen", flags.metrics_listen,
                 "Serve metrics for Prometheus at this address:port, in the "
                 "clear and to everybody who reaches it (default: nowhere)");
  app.add_option("--predict_models", flags.predict_models,
                 "Models that may answer `comera predict --remote` and "
                 "`comera generate --remote` here at "
                 "once; 0: none")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_option("--predict_memory", flags.predict_memory_mib,
                 "MiB of memory that each of them may take")
      ->check(CLI::Range(64, 1 << 24))
      ->capture_default_str();
  app.add_option("--completions_listen", flags.completions_listen,
                 "Continue texts over HTTP at this address:port, in the form "
                 "of OpenAI's /v1/completions (default: nowhere)");
  app.add_option("--completions_tls_cert", flags.completions_tls_cert,
                 "Certificate that --completions_listen shows, PEM file; turns "
                 "TLS on there; read again when it changes");
  app.add_option("--completions_tls_key", flags.completions_tls_key,
                 "Its key, PEM file");
  app.add_flag("--insecure_completions", flags.insecure_completions,
               "Let --completions_listen serve other machines, unencrypted");
  app.add_flag("--print-config", flags.print_config,
               "Print the configuration that would be used, and exit");
}

}  // namespace comera::worker
