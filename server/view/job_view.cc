// Copies the fields of a job that lists show.
#include "server/view/job_view.h"

namespace comera::server {
namespace {

void ViewSpec(const v1::JobSpec& spec, v1::JobSpec* view) {
  view->set_display_name(spec.display_name());
  if (!spec.labels().empty()) *view->mutable_labels() = spec.labels();
  view->set_queue(spec.queue());
  view->set_priority(spec.priority());
  if (spec.has_resources()) *view->mutable_resources() = spec.resources();
  if (!spec.objective().has_late()) return;
  const v1::LateStage& late = spec.objective().late();
  v1::LateStage* targets = view->mutable_objective()->mutable_late();
  targets->set_target_loss(late.target_loss());
  switch (late.target_size_case()) {
    case v1::LateStage::kTargetBytes:
      targets->set_target_bytes(late.target_bytes());
      break;
    case v1::LateStage::kTargetParameters:
      targets->set_target_parameters(late.target_parameters());
      break;
    case v1::LateStage::kTargetRatio:
      targets->set_target_ratio(late.target_ratio());
      break;
    case v1::LateStage::TARGET_SIZE_NOT_SET:
      break;
  }
  *targets->mutable_targets() = late.targets();
}

}  // namespace

// Field by field: a copy of all, of which most is then cleared, takes ten times
// as long.
void ViewBasic(const v1::Job& job, v1::Job* view) {
  view->set_name(job.name());
  ViewSpec(job.spec(), view->mutable_spec());
  view->set_state(job.state());
  view->set_outcome(job.outcome());
  if (job.has_failure()) {
    *view->mutable_failure() = job.failure();
    view->mutable_failure()->clear_log_tail();
  }
  view->set_reason(job.reason());
  if (job.has_create_time()) *view->mutable_create_time() = job.create_time();
  if (job.has_start_time()) *view->mutable_start_time() = job.start_time();
  if (job.has_end_time()) *view->mutable_end_time() = job.end_time();
  view->set_attempt(job.attempt());
  if (job.has_progress()) *view->mutable_progress() = job.progress();
  view->set_etag(job.etag());
  view->set_request_id(job.request_id());
  view->set_user(job.user());
  view->set_sweep(job.sweep());
  view->set_pausing(job.pausing());
  *view->mutable_datasets() = job.datasets();
}

}  // namespace comera::server
