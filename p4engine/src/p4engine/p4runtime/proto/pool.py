"""The descriptor pool of the generated modules, with the one definition that they need beside."""

from google.protobuf import any_pb2, descriptor_pool

POOL = descriptor_pool.DescriptorPool()
POOL.AddSerializedFile(any_pb2.DESCRIPTOR.serialized_pb)
