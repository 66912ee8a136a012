// Declares the flags of comera-server, and turns them into its options.
#include "server/daemon/server_flags.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comera/v1/job.pb.h"
#include "common/private_file.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "server/auth/oidc/oidc_access.h"

namespace comera::server {
namespace {

// Also whole days ("30d"), and "forever".
std::optional<absl::Duration> ParseRetention(const std::string& text) {
  if (text == "forever") return absl::InfiniteDuration();
  absl::Duration duration;
  int64_t days = 0;
  if (absl::EndsWith(text, "d") &&
      absl::SimpleAtoi(text.substr(0, text.size() - 1), &days)) {
    duration = absl::Hours(24) * days;
  } else if (!absl::ParseDuration(text, &duration)) {
    return std::nullopt;
  }
  if (duration <= absl::ZeroDuration()) return std::nullopt;
  return duration;
}

std::string CheckRetention(const std::string& text) {
  if (ParseRetention(text)) return "";
  return "\"" + text +
         "\" is not a time to keep things, e.g. 30d, 12h, forever";
}

std::string CheckDay(const std::string& text) {
  absl::Time day;
  if (absl::ParseTime("%Y-%m-%d", text, &day, nullptr)) return "";
  return "\"" + text + "\" is not a day, e.g. 2026-01-31";
}

std::string CheckDuration(const std::string& text) {
  absl::Duration duration;
  if (absl::ParseDuration(text, &duration) && duration > absl::ZeroDuration() &&
      duration < absl::InfiniteDuration()) {
    return "";
  }
  return "\"" + text + "\" is not a positive duration, e.g. 60s or 2m";
}

// A shorter one would end in every stutter of the network or the database.
std::string CheckLease(const std::string& text) {
  absl::Duration duration;
  if (absl::ParseDuration(text, &duration) && duration >= absl::Seconds(2) &&
      duration <= absl::Minutes(10)) {
    return "";
  }
  return "\"" + text + "\" is not a duration from 2s to 10m, e.g. 5s";
}

// What the server keeps of each user that has a token.
void AddQuotaFlags(CLI::App& app, UserQuota& quota) {
  const auto add = [&app](const char* name, int64_t& value, const char* text) {
    app.add_option(name, value, text)
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
  };
  const auto add_bytes = [&app](const char* name, int64_t& value,
                                const char* text) {
    app.add_option(name, value, text)
        ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
        ->capture_default_str();
  };
  add("--user_queued_jobs", quota.queued_jobs,
      "Waiting jobs per user; 0: any number");
  app.add_option("--user_queue_share", quota.queue_share,
                 "Part of the server's longest queue that one user's waiting "
                 "jobs may be; 0: all of it")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  add("--user_jobs", quota.jobs,
      "Jobs that are not forgotten, per user, finished ones included; 0: any "
      "number");
  add_bytes(
      "--user_job_bytes", quota.job_bytes,
      "Bytes of the specifications of those jobs and of sweeps, e.g. 1Gi; "
      "0: any number");
  add("--user_sweeps", quota.sweeps,
      "Sweeps that are not forgotten, per user; 0: any number");
  add("--user_active_sweeps", quota.active_sweeps,
      "Sweeps under way per user; 0: any number");
  add("--user_datasets", quota.datasets, "Datasets per user; 0: any number");
  add_bytes("--user_dataset_bytes", quota.dataset_bytes,
            "Bytes of a user's datasets, all versions and files that are in "
            "none; 0: any number");
  add_bytes("--user_model_bytes", quota.model_bytes,
            "Bytes of the models and early-stage checkpoints of a user's jobs; "
            "0: any number");
}

void AddSecurityFlags(CLI::App& app, ServerSecurity::Options& security) {
  app.add_option("--tls_cert", security.tls.certificate,
                 "Certificate chain, PEM; read again when it changes");
  app.add_option("--tls_key", security.tls.key, "Its key, PEM");
  app.add_option("--tls_client_ca", security.tls.client_ca,
                 "Authorities of clients' and workers' certificates, PEM: each "
                 "then needs one");
  app.add_option("--init_admin_token_file", security.init_admin_token_file,
                 "While no admin token works: make one and write it there, "
                 "readable by its owner only");
  app.add_flag("--insecure_allow_remote", security.insecure_allow_remote,
               "Listen beyond this machine without TLS or without tokens");
  app.add_flag(
      "--trust_peer_addresses", security.trust_peer_addresses,
      "Take the --address that a worker announces, also where it calls "
      "from another (proxies, NAT, several networks)");
  app.add_flag(
      "--allow_unbound_worker_tokens", security.allow_unbound_worker_tokens,
      "Take workers' tokens that name no worker, and certificates, for "
      "any worker, as earlier versions did; for the time of an "
      "upgrade");
  UserLimits::Options& limits = security.limits;
  app.add_option("--user_requests_per_second", limits.requests_per_second,
                 "Calls per user, in the long run")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--user_submissions_per_second", limits.submissions_per_second,
                 "New jobs per user, in the long run")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--user_streams", limits.max_streams,
                 "Streams open at once per user: watches, logs, downloads, "
                 "uploads, backups, tried texts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--user_uploads", limits.max_uploads,
                 "Uploads of datasets' files open at once per user")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--user_downloads", limits.max_downloads,
                 "Downloads of datasets' files, models and checkpoints open at "
                 "once per user")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--worker_downloads", limits.max_worker_downloads,
                 "The same per worker that has a token")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  AddQuotaFlags(app, limits.quota);
}

std::string CheckGroupRole(const std::string& text) {
  return std::string(ParseGroupRole(text).status().message());
}

void AddSignOnFlags(CLI::App& app, ServerFlags& flags) {
  OidcAccess::Options& oidc = flags.security.oidc;
  app.add_option("--oidc_issuer", oidc.issuer,
                 "Take the tokens of this issuer of OpenID Connect, a URL");
  app.add_option("--oidc_audience", oidc.audiences,
                 "Take those that are meant for this audience; repeatable");
  app.add_option("--oidc_client_id", oidc.client_id,
                 "Let browsers sign in at the issuer as this client, which is "
                 "an audience too");
  app.add_option("--oidc_groups_claim", oidc.groups_claim,
                 "The claim with the user's groups")
      ->capture_default_str();
  app.add_option("--oidc_role", flags.oidc_roles,
                 "GROUP=[QUEUE:]ROLE: what members of a group may do, in one "
                 "queue or on the whole server; repeatable")
      ->check(CheckGroupRole);
}

std::string CheckUrl(const std::string& text) {
  return std::string(CheckWebhookUrl(text).message());
}

std::string CheckState(const std::string& text) {
  v1::JobState state;
  if (v1::JobState_Parse(text, &state) && state != v1::JOB_STATE_UNSPECIFIED) {
    return "";
  }
  return "\"" + text + "\" is not a job's state, e.g. SUCCEEDED";
}

void AddWebhookFlags(CLI::App& app, ServerFlags& flags) {
  CLI::Option* const url =
      app.add_option("--webhook_url", flags.webhook_url,
                     "Post each change of a job's state there, signed; with "
                     "https, or on this machine http")
          ->check(CheckUrl);
  CLI::Option* const key =
      app.add_option("--webhook_key_file", flags.webhook_key_file,
                     "File with the key for the signatures: whsec_ and base64, "
                     "or a text, of at least 24 bytes")
          ->needs(url);
  url->needs(key);
  app.add_option("--webhook_states", flags.webhook_states,
                 "Only changes to these states, e.g. SUCCEEDED,FAILED "
                 "(default: all)")
      ->needs(url)
      ->delimiter(',')
      ->check(CheckState);
}

void AddHttpFlags(CLI::App& app, ServerFlags& flags) {
  app.add_option("--http_listen", flags.http_listen,
                 "Address for HTTP (dashboard, API as JSON, metrics), "
                 "host:port; port 0: any free one; `none`: no HTTP. Default: "
                 "127.0.0.1:7480, and where that is taken or --listen has port "
                 "0 any free port");
  app.add_option("--http_port_file", flags.http_port_file,
                 "Written with HTTP's host:port once the server accepts calls");
  app.add_option("--max_connections", flags.max_connections,
                 "Connections of both ports together, half of them each; 0: "
                 "four fifths of the files that the process may open")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--connections_per_address", flags.connections_per_address,
                 "Connections of one address (IPv6: one /64 network) to a "
                 "port, at most half of the port's, which an address of "
                 "loopback may have")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_flag("--bound_grpc_connections", flags.bound_grpc_connections,
               "Hold the gRPC port, too, to --max_connections and "
               "--connections_per_address; default: true");
  app.add_option("--http_host", flags.http_hosts,
                 "Name by which browsers reach this server, e.g. of a proxy; "
                 "may be repeated");
  app.add_flag("--http_open_metrics", flags.http_open_metrics,
               "Whoever reaches the HTTP port may read /metrics, without a "
               "token");
}

}  // namespace

absl::Duration ToDuration(const std::string& text) {
  absl::Duration duration;
  absl::ParseDuration(text, &duration);
  return duration;
}

void AddServerFlags(CLI::App& app, ServerFlags& flags) {
  app.add_option("--listen", flags.listen,
                 "Address for gRPC, host:port; port 0: any free one")
      ->capture_default_str();
  app.add_option("--data_dir", flags.data_dir,
                 "Folder for jobs, logs and models; made if missing")
      ->required();
  app.add_option("--store", flags.store,
                 "sqlite: a file in the data folder; or "
                 "postgres://[user@]host[:port]/database, for several "
                 "coordinators of which one leads (password: PGPASSFILE)")
      ->capture_default_str();
  app.add_option("--backup", flags.backup,
                 "Write all jobs to this new file and exit; the server may run "
                 "meanwhile (logs and models are files in the data folder)");
  app.add_option("--restore", flags.restore,
                 "Fill the empty store from the file of a backup and exit")
      ->excludes("--backup");
  app.add_option("--advertise", flags.advertise,
                 "With --store=postgres://...: host:port at which clients and "
                 "workers reach this coordinator (default: --listen)");
  app.add_option("--coordinator_ca", flags.coordinator_ca,
                 "With --store=postgres://... and TLS: authorities of the "
                 "other coordinators' certificates, PEM, by which a "
                 "coordinator that does not lead passes calls on (default: "
                 "--tls_client_ca, else \"system\": those of this system)");
  app.add_option("--leader_lease", flags.leader_lease,
                 "With --store=postgres://...: another coordinator leads when "
                 "the leader has been silent for this long; at least 2s")
      ->capture_default_str()
      ->check(CheckLease);
  app.add_option("--port_file", flags.port_file,
                 "Written with host:port once the server accepts calls");
  app.add_option("--node_lost_after", flags.node_lost_after,
                 "Give up the members of a worker that is silent for this long")
      ->capture_default_str()
      ->check(CheckDuration);
  app.add_option("--reattach_grace", flags.reattach_grace,
                 "After a restart: wait this long for the workers of running "
                 "jobs")
      ->capture_default_str()
      ->check(CheckDuration);
  app.add_option("--mass_silence_wait", flags.mass_silence_wait,
                 "While more than half of at least three workers are silent "
                 "together: give none of them up for this long")
      ->capture_default_str()
      ->check(CheckDuration);
  app.add_option("--forget_worker_after", flags.forget_worker_after,
                 "Forget a worker that has been away for this long")
      ->capture_default_str()
      ->check(CheckDuration);
  app.add_option("--stall_after", flags.stall_after,
                 "End a gang whose members make no progress for this long, or "
                 "for five steps if that is longer")
      ->capture_default_str()
      ->check(CheckDuration);
  app.add_option("--checkpoint_wait", flags.checkpoint_wait,
                 "A job waits this long for a worker that holds its newest "
                 "checkpoint, before it goes on from an older one or is paused")
      ->capture_default_str()
      ->check(CheckDuration);
  app.add_option("--dataset_quota_bytes", flags.dataset_quota_bytes,
                 "Bytes of all uploaded datasets together, at most")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--max_dataset_bytes", flags.max_dataset_bytes,
                 "Bytes of one version of a dataset, at most")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--max_dataset_file_bytes", flags.max_dataset_file_bytes,
                 "Bytes of one file of a dataset, at most")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--model_quota_bytes", flags.model_quota_bytes,
                 "Bytes of all models and early-stage checkpoints together, at "
                 "most; 0: any number")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--min_free_bytes", flags.min_free_bytes,
                 "With fewer bytes free in the data folder's file system, the "
                 "server takes no changes until there are twice as many; 0: "
                 "only when the disk is full")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--disk_reserve_bytes", flags.disk_reserve_bytes,
                 "Bytes of a file in the data folder that is given up when the "
                 "disk is full, so that the last changes can be written; 0: "
                 "none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--keep_jobs", flags.keep_jobs,
                 "Finished jobs and sweeps go after this, with events, models "
                 "and logs; e.g. 30d, 12h, forever")
      ->capture_default_str()
      ->check(CheckRetention);
  app.add_option("--keep_logs", flags.keep_logs,
                 "Logs of finished jobs go after this")
      ->capture_default_str()
      ->check(CheckRetention);
  app.add_option(
         "--keep_checkpoints", flags.keep_checkpoints,
         "Checkpoints of failed and cancelled jobs go after this; until "
         "then such a job can be resumed")
      ->capture_default_str()
      ->check(CheckRetention);
  app.add_flag("--retention_dry_run", flags.retention_dry_run,
               "Only log what --keep_jobs and --keep_logs would remove");
  app.add_option("--confirm_clock", flags.confirm_clock,
                 "Today's date, e.g. 2026-01-31. Nothing expires while the "
                 "clock leads the newest time in the store by more than a day, "
                 "unless this confirms it")
      ->check(CheckDay);
  AddHttpFlags(app, flags);
  AddSecurityFlags(app, flags.security);
  AddSignOnFlags(app, flags);
  AddWebhookFlags(app, flags);
  app.add_flag("--print-config", flags.print_config,
               "Print the configuration and exit");
  app.set_version_flag("--version", absl::StrCat("comera-server ", kVersion));
}

ComeraServer::Options OptionsOf(const ServerFlags& flags) {
  ComeraServer::Options options;
  options.listen = flags.listen;
  options.data_dir = flags.data_dir;
  options.security = flags.security;
  for (const std::string& role : flags.oidc_roles) {
    options.security.oidc.roles.push_back(ParseGroupRole(role).value());
  }
  options.http.names = flags.http_hosts;
  options.http.open_metrics = flags.http_open_metrics;
  options.host.coordinator.node_lost_after = ToDuration(flags.node_lost_after);
  options.datasets.blobs.quota_bytes = flags.dataset_quota_bytes;
  options.datasets.blobs.max_blob_bytes = flags.max_dataset_file_bytes;
  options.datasets.limits.max_bytes = flags.max_dataset_bytes;
  options.host.coordinator.checkpoint_wait = ToDuration(flags.checkpoint_wait);
  options.host.coordinator.reattach_grace = ToDuration(flags.reattach_grace);
  options.host.coordinator.mass_silence_wait =
      ToDuration(flags.mass_silence_wait);
  options.host.coordinator.forget_worker_after =
      ToDuration(flags.forget_worker_after);
  options.disk.min_free_bytes = flags.min_free_bytes;
  options.disk.reserve_bytes = flags.disk_reserve_bytes;
  options.disk.resume_free_bytes =
      std::max(2 * flags.min_free_bytes, flags.disk_reserve_bytes);
  // Uploads stop while the store can still write.
  options.datasets.blobs.min_free_bytes = options.disk.resume_free_bytes;
  options.host.model_quota_bytes = flags.model_quota_bytes;
  options.host.retention.keep_jobs = *ParseRetention(flags.keep_jobs);
  options.host.retention.keep_logs = *ParseRetention(flags.keep_logs);
  options.host.coordinator.keep_checkpoints =
      *ParseRetention(flags.keep_checkpoints);
  options.host.retention.dry_run = flags.retention_dry_run;
  absl::ParseTime("%Y-%m-%d", flags.confirm_clock, &options.host.confirmed_day,
                  nullptr);
  if (!flags.retention_dry_run) {
    options.sweeps.keep_ended = options.host.retention.keep_jobs;
  }
  options.host.coordinator.hang.stall_after = ToDuration(flags.stall_after);
  return options;
}

absl::StatusOr<Webhook::Options> WebhookOf(const ServerFlags& flags) {
  Webhook::Options options;
  if (flags.webhook_url.empty()) return options;
  options.url = flags.webhook_url;
  ASSIGN_OR_RETURN(const std::string text,
                   ReadPrivateFile(flags.webhook_key_file));
  absl::StatusOr<std::string> key = ParseWebhookKey(text);
  if (!key.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("webhook_key_file: ", flags.webhook_key_file, ": ",
                     key.status().message()));
  }
  options.key = *std::move(key);
  for (const std::string& name : flags.webhook_states) {
    v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
    v1::JobState_Parse(name, &state);
    options.states.insert(state);
  }
  return options;
}

void PrintConfig(const ServerFlags& flags) {
  std::cout
      << "listen=" << flags.listen << "\ndata_dir=" << flags.data_dir
      << "\nstore=" << flags.store << "\nadvertise=" << flags.advertise
      << "\ncoordinator_ca=" << flags.coordinator_ca
      << "\nleader_lease=" << flags.leader_lease
      << "\nport_file=" << flags.port_file
      << "\nhttp_listen=" << flags.http_listen.value_or(kHttpListen)
      << "\nhttp_port_file=" << flags.http_port_file
      << "\nhttp_host=" << absl::StrJoin(flags.http_hosts, ",")
      << "\nhttp_open_metrics=" << (flags.http_open_metrics ? "true" : "false")
      << "\nmax_connections=" << flags.max_connections
      << "\nconnections_per_address=" << flags.connections_per_address
      << "\nbound_grpc_connections="
      << (flags.bound_grpc_connections ? "true" : "false")
      << "\nnode_lost_after=" << flags.node_lost_after
      << "\nreattach_grace=" << flags.reattach_grace
      << "\nmass_silence_wait=" << flags.mass_silence_wait
      << "\nforget_worker_after=" << flags.forget_worker_after
      << "\nstall_after=" << flags.stall_after
      << "\ncheckpoint_wait=" << flags.checkpoint_wait
      << "\ndataset_quota_bytes=" << flags.dataset_quota_bytes
      << "\nmax_dataset_bytes=" << flags.max_dataset_bytes
      << "\nmax_dataset_file_bytes=" << flags.max_dataset_file_bytes
      << "\nmodel_quota_bytes=" << flags.model_quota_bytes
      << "\nmin_free_bytes=" << flags.min_free_bytes
      << "\ndisk_reserve_bytes=" << flags.disk_reserve_bytes
      << "\nkeep_jobs=" << flags.keep_jobs << "\nkeep_logs=" << flags.keep_logs
      << "\nkeep_checkpoints=" << flags.keep_checkpoints
      << "\nretention_dry_run=" << (flags.retention_dry_run ? "true" : "false")
      << "\nconfirm_clock=" << flags.confirm_clock << "\ninsecure_allow_remote="
      << (flags.security.insecure_allow_remote ? "true" : "false")
      << "\ntrust_peer_addresses="
      << (flags.security.trust_peer_addresses ? "true" : "false")
      << "\nallow_unbound_worker_tokens="
      << (flags.security.allow_unbound_worker_tokens ? "true" : "false")
      << "\ntls_cert=" << flags.security.tls.certificate
      << "\ntls_key=" << flags.security.tls.key
      << "\ntls_client_ca=" << flags.security.tls.client_ca
      << "\ninit_admin_token_file=" << flags.security.init_admin_token_file
      << "\noidc_issuer=" << flags.security.oidc.issuer
      << "\noidc_audience=" << absl::StrJoin(flags.security.oidc.audiences, ",")
      << "\noidc_client_id=" << flags.security.oidc.client_id
      << "\noidc_groups_claim=" << flags.security.oidc.groups_claim
      << "\noidc_role=" << absl::StrJoin(flags.oidc_roles, ",")
      << "\nwebhook_url=" << flags.webhook_url
      << "\nwebhook_key_file=" << flags.webhook_key_file
      << "\nwebhook_states=" << absl::StrJoin(flags.webhook_states, ",")
      << "\n";
}

}  // namespace comera::server
