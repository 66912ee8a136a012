// Streams, events, capture and graphs. All of it is under one lock, except the
// work itself.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "tests/fakes/cuda/fake_state.h"

namespace {

using Work = std::function<cudaError_t()>;
struct Capture;

}  // namespace

struct CUgraph_st {
  std::vector<Work> nodes;
};
struct CUgraphExec_st {
  std::vector<Work> nodes;
};

// `covered`: up to which node of each stream of the capture this one waits.
struct CUstream_st {
  bool non_blocking = false;
  std::shared_ptr<Capture> capture;
  std::map<CUstream_st*, size_t> covered;
};
struct CUevent_st {
  bool timing = true;
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
  std::shared_ptr<Capture> capture;  // recorded during it
  std::map<CUstream_st*, size_t> covered;
};

namespace {

struct Capture {
  CUstream_st* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool spoilt = false;
  std::unique_ptr<CUgraph_st> graph;
  std::map<CUstream_st*, size_t> last_node;  // by stream, counted from 1
};

struct Streams {
  std::mutex mutex;
  std::set<CUstream_st*> streams;
  std::set<CUevent_st*> events;
  std::set<std::shared_ptr<Capture>> captures;
};
Streams& All() {
  static Streams* const all = new Streams;
  return *all;
}

bool Known(cudaStream_t stream) {
  return stream == nullptr || All().streams.count(stream) != 0;
}

cudaError_t Spoil(Capture& capture, cudaError_t code) {
  capture.spoilt = true;
  return code;
}

cudaError_t UnsafeLocked() {
  cudaError_t code = cudaSuccess;
  for (const auto& capture : All().captures) {
    if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
    if (capture->mode == cudaStreamCaptureModeThreadLocal &&
        capture->thread != std::this_thread::get_id()) {
      continue;
    }
    code = Spoil(*capture, cudaErrorStreamCaptureUnsupported);
  }
  return code;
}

// Work on the legacy stream waits for all blocking streams, which a capture
// cannot express.
cudaError_t LegacyLocked() {
  for (const auto& capture : All().captures) {
    if (!capture->origin->non_blocking) {
      return Spoil(*capture, cudaErrorStreamCaptureImplicit);
    }
  }
  return cudaSuccess;
}

cudaError_t WaitLocked(cudaStream_t stream) {
  if (!Known(stream)) return cudaErrorInvalidResourceHandle;
  if (stream == nullptr) return LegacyLocked();
  if (stream->capture != nullptr) {
    return Spoil(*stream->capture, cudaErrorStreamCaptureUnsupported);
  }
  return cudaSuccess;
}

}  // namespace

namespace comera::fake_cuda {

cudaError_t Enqueue(cudaStream_t stream, const Work& work) {
  {
    const std::lock_guard<std::mutex> lock(All().mutex);
    if (!Known(stream)) return Return(cudaErrorInvalidResourceHandle);
    if (stream == nullptr) {
      if (const cudaError_t code = LegacyLocked(); code != cudaSuccess) {
        return Return(code);
      }
    } else if (stream->capture != nullptr) {
      Capture& capture = *stream->capture;
      if (capture.spoilt) return Return(cudaErrorStreamCaptureInvalidated);
      capture.graph->nodes.push_back(work);
      const size_t node = capture.graph->nodes.size();
      capture.last_node[stream] = node;
      stream->covered[stream] = node;
      return cudaSuccess;
    }
  }
  if (IsNoting()) return cudaSuccess;
  return Return(work());
}

bool IsCapturing(cudaStream_t stream) {
  const std::lock_guard<std::mutex> lock(All().mutex);
  return stream != nullptr && Known(stream) && stream->capture != nullptr;
}

void SpoilCapture(cudaStream_t stream) {
  const std::lock_guard<std::mutex> lock(All().mutex);
  if (stream->capture != nullptr) stream->capture->spoilt = true;
}

cudaError_t UnsafeDuringCapture() {
  const std::lock_guard<std::mutex> lock(All().mutex);
  return UnsafeLocked();
}

}  // namespace comera::fake_cuda

using comera::fake_cuda::Enqueue;
using comera::fake_cuda::Return;

// --- streams ----------------------------------------------------------------

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                         int) {
  RETURN_IF_STICKY();
  auto* created = new CUstream_st;
  created->non_blocking = (flags & cudaStreamNonBlocking) != 0;
  const std::lock_guard<std::mutex> lock(All().mutex);
  All().streams.insert(created);
  *stream = created;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard<std::mutex> lock(All().mutex);
  if (stream == nullptr || All().streams.erase(stream) == 0) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  if (stream->capture != nullptr) {
    stream->capture->spoilt = true;
    if (stream->capture->origin == stream) {
      All().captures.erase(stream->capture);
    }
  }
  delete stream;
  return Return(comera::fake_cuda::StickyError());
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  RETURN_IF_STICKY();
  const std::lock_guard<std::mutex> lock(All().mutex);
  return Return(WaitLocked(stream));
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return cudaStreamSynchronize(stream);
}

cudaError_t cudaDeviceSynchronize() {
  RETURN_IF_STICKY();
  const std::lock_guard<std::mutex> lock(All().mutex);
  cudaError_t code = cudaSuccess;
  for (const auto& capture : All().captures) {
    code = Spoil(*capture, cudaErrorStreamCaptureUnsupported);
  }
  return Return(code);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                               void* data) {
  RETURN_IF_STICKY();
  return Enqueue(stream, [function, data] {
    function(data);
    return cudaSuccess;
  });
}

// --- events -----------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  RETURN_IF_STICKY();
  auto* created = new CUevent_st;
  created->timing = (flags & cudaEventDisableTiming) == 0;
  const std::lock_guard<std::mutex> lock(All().mutex);
  All().events.insert(created);
  *event = created;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  RETURN_IF_STICKY();
  const std::lock_guard<std::mutex> lock(All().mutex);
  if (All().events.count(event) == 0 || !Known(stream)) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  if (stream == nullptr) {
    if (const cudaError_t code = LegacyLocked(); code != cudaSuccess) {
      return Return(code);
    }
  }
  event->capture = stream == nullptr ? nullptr : stream->capture;
  event->covered.clear();
  if (event->capture != nullptr) {
    if (event->capture->spoilt) {
      return Return(cudaErrorStreamCaptureInvalidated);
    }
    event->covered = stream->covered;
  }
  event->recorded = true;
  event->time = std::chrono::steady_clock::now();
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned) {
  RETURN_IF_STICKY();
  const std::lock_guard<std::mutex> lock(All().mutex);
  if (All().events.count(event) == 0 || !Known(stream)) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  if (!event->recorded) return cudaSuccess;
  const auto own = stream == nullptr ? nullptr : stream->capture;
  if (event->capture == nullptr) {
    // Work from before the capture cannot become part of it.
    return own == nullptr
               ? cudaSuccess
               : Return(Spoil(*own, cudaErrorStreamCaptureIsolation));
  }
  if (own != nullptr && own != event->capture) {
    own->spoilt = true;
    return Return(Spoil(*event->capture, cudaErrorStreamCaptureMerge));
  }
  if (All().captures.count(event->capture) == 0) return cudaSuccess;
  if (stream == nullptr) {
    return Return(Spoil(*event->capture, cudaErrorStreamCaptureImplicit));
  }
  if (own == nullptr) stream->covered.clear();
  stream->capture = event->capture;  // forked, if it was not part of it
  event->capture->last_node.emplace(stream, 0);
  for (const auto& [other, node] : event->covered) {
    size_t& covered = stream->covered[other];
    covered = std::max(covered, node);
  }
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  RETURN_IF_STICKY();
  const std::lock_guard<std::mutex> lock(All().mutex);
  if (All().events.count(event) == 0) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  if (event->capture != nullptr) {
    return Return(Spoil(*event->capture, cudaErrorCapturedEvent));
  }
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return cudaEventSynchronize(event);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard<std::mutex> lock(All().mutex);
  if (All().events.erase(event) == 0) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  delete event;
  return Return(comera::fake_cuda::StickyError());
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start,
                                 cudaEvent_t end) {
  RETURN_IF_STICKY();
  const std::lock_guard<std::mutex> lock(All().mutex);
  if (All().events.count(start) == 0 || All().events.count(end) == 0 ||
      !start->timing || !end->timing || !start->recorded || !end->recorded) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  *milliseconds =
      std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return cudaSuccess;
}

// --- capture ----------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                   cudaStreamCaptureMode mode) {
  RETURN_IF_STICKY();
  const std::lock_guard<std::mutex> lock(All().mutex);
  if (stream == nullptr) return Return(cudaErrorStreamCaptureUnsupported);
  if (!Known(stream)) return Return(cudaErrorInvalidResourceHandle);
  if (stream->capture != nullptr) return Return(cudaErrorIllegalState);
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->graph = std::make_unique<CUgraph_st>();
  stream->covered.clear();
  stream->capture = capture;
  All().captures.insert(std::move(capture));
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  RETURN_IF_STICKY();
  const std::lock_guard<std::mutex> lock(All().mutex);
  *graph = nullptr;
  if (stream == nullptr || !Known(stream)) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  if (stream->capture == nullptr) return Return(cudaErrorIllegalState);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture->origin != stream) {
    return Return(Spoil(*capture, cudaErrorStreamCaptureUnmatched));
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return Return(Spoil(*capture, cudaErrorStreamCaptureWrongThread));
  }
  bool joined = true;
  for (const auto& [other, node] : capture->last_node) {
    const auto covered = stream->covered.find(other);
    joined = joined && (node == 0 || (covered != stream->covered.end() &&
                                      covered->second >= node));
  }
  for (CUstream_st* other : All().streams) {
    if (other->capture == capture) other->capture = nullptr;
  }
  All().captures.erase(capture);
  if (capture->spoilt) return Return(cudaErrorStreamCaptureInvalidated);
  if (!joined) return Return(cudaErrorStreamCaptureUnjoined);
  *graph = capture->graph.release();
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                  cudaStreamCaptureStatus* status) {
  RETURN_IF_STICKY();
  const std::lock_guard<std::mutex> lock(All().mutex);
  if (!Known(stream)) return Return(cudaErrorInvalidResourceHandle);
  const Capture* capture = stream == nullptr ? nullptr : stream->capture.get();
  *status = capture == nullptr ? cudaStreamCaptureStatusNone
            : capture->spoilt  ? cudaStreamCaptureStatusInvalidated
                               : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

// --- graphs -----------------------------------------------------------------

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long) {
  RETURN_IF_STICKY();
  if (graph == nullptr) return Return(cudaErrorInvalidValue);
  *exec = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t) {
  RETURN_IF_STICKY();
  return exec == nullptr ? Return(cudaErrorInvalidValue) : cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  RETURN_IF_STICKY();
  if (exec == nullptr) return Return(cudaErrorInvalidValue);
  comera::fake_cuda::CountGraphLaunch();
  return Enqueue(stream, [nodes = exec->nodes] {
    for (const Work& node : nodes) {
      if (const cudaError_t code = node(); code != cudaSuccess) return code;
      if (comera::fake_cuda::StickyError() != cudaSuccess) break;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return Return(comera::fake_cuda::StickyError());
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return Return(comera::fake_cuda::StickyError());
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes,
                              size_t* count) {
  RETURN_IF_STICKY();
  if (graph == nullptr || nodes != nullptr) {
    return Return(cudaErrorInvalidValue);
  }
  *count = graph->nodes.size();
  return cudaSuccess;
}
