// The messages of comera.v1 that the pages read, as protobuf's JSON has them:
// 64-bit integers are strings, times are RFC 3339, durations end in "s", and
// fields at their default are absent.

export type Int64 = string | number;

export type JobState =
  | 'QUEUED'
  | 'STARTING'
  | 'RUNNING'
  | 'CANCELLING'
  | 'SUCCEEDED'
  | 'FAILED'
  | 'CANCELLED'
  | 'PAUSED';

export type Outcome = 'TARGET_MET' | 'TARGET_MISSED' | 'COMPLETED';

export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [key: string]: Json | undefined;
}

export interface Failure {
  failureClass?: string;
  message?: string;
  time?: string;
  attempt?: Int64;
  rank?: number;
  logTail?: string;
}

export interface JobProgress {
  step?: Int64;
  totalSteps?: Int64;
  stage?: string;
  loss?: number;
  validationLoss?: number;
  hasValidationLoss?: boolean;
  sizeParameters?: Int64;
  sizeBytes?: Int64;
  samplesPerSecond?: number;
  eta?: string;
  targetLoss?: number;
  targetSizeParameters?: Int64;
}

export interface ArtifactFile {
  path?: string;
  sizeBytes?: Int64;
  sha256?: string;
}

export interface Artifact {
  name?: string;
  files?: ArtifactFile[];
  createTime?: string;
  validationLoss?: number;
  sizeParameters?: Int64;
}

export interface Checkpoint {
  name?: string;
  step?: Int64;
  sizeBytes?: Int64;
  createTime?: string;
  workers?: string[];
  durable?: boolean;
  stage?: string;
}

export interface Forecast {
  processesNow?: number;
  position?: number;
  expectedStart?: string;
  blockedBy?: string;
}

export interface JobSpec extends JsonObject {
  displayName?: string;
  labels?: Record<string, string>;
  queue?: string;
  priority?: number;
  resources?: { device?: string; processes?: number; minProcesses?: number };
}

export interface Job {
  name?: string;
  spec?: JobSpec;
  state?: JobState;
  outcome?: Outcome;
  failure?: Failure;
  reason?: string;
  createTime?: string;
  startTime?: string;
  endTime?: string;
  attempt?: Int64;
  incidents?: Failure[];
  progress?: JobProgress;
  models?: Artifact[];
  user?: string;
  sweep?: string;
  checkpoints?: Checkpoint[];
  forecast?: Forecast;
  pausing?: boolean;
}

export interface StepMetrics {
  step?: Int64;
  totalSteps?: Int64;
  stage?: string;
  [metric: string]: Json | undefined;
}

export interface LayerRanks {
  layer?: string;
  layerClass?: string;
  initial?: number[];
  current?: number[];
}

export interface RankSnapshot {
  step?: Int64;
  layers?: LayerRanks[];
}

export interface ParetoPoint {
  step?: Int64;
  validationLoss?: number;
  sizeParameters?: Int64;
  sizeBytes?: Int64;
}

export interface RunInfo {
  trainSamples?: Int64;
  validationSamples?: Int64;
  vocabularySize?: number;
  baselineLoss?: number;
  initialParameters?: Int64;
  denseParameters?: Int64;
  totalSteps?: Int64;
  worldSize?: number;
  resumedFromStep?: Int64;
  device?: string;
}

export interface TargetResult {
  targetLoss?: number;
  targetSizeParameters?: Int64;
  outcome?: Outcome;
  steps?: Int64;
  validationLoss?: number;
  sizeParameters?: Int64;
  sizeBytes?: Int64;
}

export interface TrainingResult {
  outcome?: Outcome;
  step?: Int64;
  validationLoss?: number;
  sizeParameters?: Int64;
  sizeBytes?: Int64;
  paretoFront?: ParetoPoint[];
  reason?: string;
  targets?: TargetResult[];
}

export interface JobEvent {
  job?: string;
  sequence?: Int64;
  time?: string;
  attempt?: Int64;
  stateChange?: {
    state?: JobState;
    outcome?: Outcome;
    reason?: string;
    failure?: Failure;
  };
  metrics?: StepMetrics;
  rankSnapshot?: RankSnapshot;
  paretoPoint?: ParetoPoint;
  checkpoint?: { step?: Int64; sizeBytes?: Int64 };
  incident?: Failure;
  dropped?: { count?: Int64 };
  runInfo?: RunInfo;
  result?: TrainingResult;
}

export interface WatchJobResponse {
  job?: Job;
  event?: JobEvent;
}

export interface MetricSeries {
  metric?: string;
  steps?: Int64[];
  values?: (number | string)[];
  wallTimes?: number[];
}

export interface JobSeries {
  series?: MetricSeries[];
  rankSnapshots?: RankSnapshot[];
  paretoPoints?: ParetoPoint[];
  lastSequence?: Int64;
  runInfo?: RunInfo;
}

export interface ListJobsResponse {
  jobs?: Job[];
  nextPageToken?: string;
  totalSize?: number;
}

export interface JobExplanation {
  state?: JobState;
  reason?: string;
  queue?: string;
  priority?: number;
  processes?: number;
  maxProcesses?: number;
  minProcesses?: number;
  position?: number;
  ahead?: {
    name?: string;
    queue?: string;
    priority?: number;
    processes?: number;
    why?: string;
  }[];
  blockedBy?: string;
  expectedStart?: string;
  smallerGangs?: { processes?: number; now?: boolean; expectedStart?: string }[];
  fitSlots?: number;
  freeSlots?: number;
  queueProcesses?: number;
  queueGuaranteedProcesses?: number;
  queueMaxProcesses?: number;
  workers?: string[];
  preemptions?: number;
}

/** The end of it is the event's id, "attempt:offset". */
export interface ReadLogResponse {
  offset?: Int64;
  /** Base64. */
  data?: string;
  attempt?: Int64;
}

export interface WorkerSummary {
  name?: string;
  host?: string;
  slots?: number;
  busySlots?: number;
  connected?: boolean;
  version?: string;
  gpus?: string[];
  unfitSlots?: string[];
  rack?: string;
  service?: 'IN_SERVICE' | 'DRAINING' | 'DRAINED' | 'EXCLUDED';
  serviceReason?: string;
  hardwareFailures?: number;
  jobs?: string[];
  lastSeen?: string;
  unfitCount?: number;
}

export interface Queue {
  name?: string;
  guaranteedProcesses?: number;
  maxProcesses?: number;
  weight?: number;
  runningJobs?: number;
  runningProcesses?: number;
  queuedJobs?: number;
  queuedProcesses?: number;
}

export type SweepState =
  'ACTIVE' | 'CANCELLING' | 'SUCCEEDED' | 'FAILED' | 'CANCELLED';

export interface ReferencePoint {
  validationLoss?: number;
  sizeParameters?: Int64;
}

export interface FrontPoint {
  point?: ParetoPoint;
  job?: string;
  run?: number;
}

export interface SweepFront {
  points?: FrontPoint[];
  hypervolume?: number;
  hypervolumeRatio?: number;
  reference?: ReferencePoint;
}

export interface SweepRun {
  index?: number;
  label?: string;
  state?: string;
  reason?: string;
  job?: string;
  jobState?: JobState;
  outcome?: Outcome;
  progress?: JobProgress;
  points?: ParetoPoint[];
  stage?: number;
}

export interface Sweep {
  name?: string;
  spec?: { displayName?: string } & JsonObject;
  state?: SweepState;
  outcome?: Outcome;
  reason?: string;
  createTime?: string;
  endTime?: string;
  user?: string;
  runs?: SweepRun[];
  stages?: SweepRun[];
  front?: SweepFront;
  counts?: {
    runs?: number;
    waiting?: number;
    active?: number;
    succeeded?: number;
    failed?: number;
    cancelled?: number;
    stopped?: number;
  };
}

export interface WatchSweepResponse {
  sweep?: Sweep;
  event?: {
    stateChange?: { state?: SweepState; outcome?: Outcome; reason?: string };
    run?: SweepRun;
    stage?: SweepRun;
    front?: SweepFront;
  };
}

export interface DatasetVersion {
  name?: string;
  number?: Int64;
  digest?: string;
  fileCount?: Int64;
  sizeBytes?: Int64;
  createTime?: string;
  user?: string;
}

export interface Dataset {
  name?: string;
  labels?: Record<string, string>;
  user?: string;
  createTime?: string;
  versions?: DatasetVersion[];
}

export interface FileDescription {
  path?: string;
  sizeBytes?: Int64;
  format?: string;
  gzip?: boolean;
  rows?: Int64;
  columns?: string[];
  labels?: { label?: string; rows?: Int64 }[];
  oddRows?: Int64;
  problem?: string;
}

export interface DatasetDescription {
  version?: string;
  files?: FileDescription[];
}

export interface Model {
  name?: string;
  artifact?: Artifact;
  jobDisplayName?: string;
  user?: string;
  sizeBytes?: Int64;
  denseParameters?: Int64;
  paretoOptimal?: boolean;
  step?: Int64;
}

export interface WhoAmI {
  user?: string;
  open?: boolean;
  token?: { role?: string };
}
