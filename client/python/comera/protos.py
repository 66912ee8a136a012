"""The API's messages, e.g. `comera.protos.JobSpec`.

Their fields are documented in proto/comera/v1.
"""

from comera._proto.access_service_pb2 import *
from comera._proto.dataset_service_pb2 import *
from comera._proto.job_pb2 import *
from comera._proto.model_service_pb2 import *
from comera._proto.predict_service_pb2 import *
from comera._proto.progress_pb2 import *
from comera._proto.queue_service_pb2 import *
from comera._proto.sweep_service_pb2 import *
from comera._proto.training_service_pb2 import *
