// Lists sweeps: newest first, a page at a time, without what their runs have.
#include <utility>

#include "server/sweep/sweep_engine.h"

namespace comera::server {
namespace {

// A sweep as lists show it. It is copied field by field, because the runs that
// lists leave out may be most of it.
v1::Sweep ViewBasic(const v1::Sweep& sweep) {
  v1::Sweep view;
  view.set_name(sweep.name());
  *view.mutable_spec() = sweep.spec();
  view.set_state(sweep.state());
  view.set_outcome(sweep.outcome());
  view.set_reason(sweep.reason());
  if (sweep.has_create_time()) {
    *view.mutable_create_time() = sweep.create_time();
  }
  if (sweep.has_end_time()) *view.mutable_end_time() = sweep.end_time();
  view.set_user(sweep.user());
  view.set_request_id(sweep.request_id());
  view.set_etag(sweep.etag());
  v1::SweepFront& front = *view.mutable_front();
  front.set_hypervolume(sweep.front().hypervolume());
  front.set_hypervolume_ratio(sweep.front().hypervolume_ratio());
  if (sweep.front().has_reference()) {
    *front.mutable_reference() = sweep.front().reference();
  }
  if (sweep.has_counts()) *view.mutable_counts() = sweep.counts();
  if (sweep.has_search()) *view.mutable_search() = sweep.search();
  return view;
}

}  // namespace

SweepPage SweepEngine::List(
    int64_t before, int limit, size_t max_bytes,
    const std::function<bool(const v1::Sweep&)>& visible) const {
  SweepPage page;
  size_t bytes = 0;
  int64_t last = 0;
  auto it = before == 0 ? by_serial_.end() : by_serial_.lower_bound(before);
  while (it != by_serial_.begin()) {
    --it;
    const v1::Sweep& sweep = sweeps_.at(it->second).sweep();
    if (!visible(sweep)) continue;
    const bool is_full = static_cast<int>(page.sweeps.size()) == limit;
    v1::Sweep view = is_full ? v1::Sweep() : ViewBasic(sweep);
    bytes += view.ByteSizeLong();
    if (is_full || (bytes > max_bytes && !page.sweeps.empty())) {
      page.next = last;
      break;
    }
    last = it->first;
    page.sweeps.push_back(std::move(view));
  }
  return page;
}

}  // namespace comera::server
