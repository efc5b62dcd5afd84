"""What people do with a gRPC service of which they have no stubs: `suite.py HOST:PORT TOKEN WORKER [CA CERTIFICATE KEY]`.

Ends with 1 at the first thing that is wrong. WORKER is a worker that the control plane knows. With a CA the connection is encrypted, and the
certificate is shown.
"""

import sys

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

SERVING = health_pb2.HealthCheckResponse.SERVING
JOBS = "firn.jobs.v1.Jobs"
ANSWER_S = 20


def check(found, expected, what):
    if found != expected:
        raise AssertionError(f"{what}: {found!r} instead of {expected!r}")


def refusal(call):
    try:
        found = call()
    except grpc.RpcError as error:
        return error
    raise AssertionError(f"answered with {found!r} instead of being refused")


def health(channel):
    stub = health_pb2_grpc.HealthStub(channel)
    asked = lambda name: health_pb2.HealthCheckRequest(service=name)
    for name in ("", JOBS, "firn.jobs.v1.Workers"):
        check(stub.Check(asked(name), timeout=ANSWER_S).status, SERVING, f"Check {name!r}")
        watch = stub.Watch(asked(name), timeout=ANSWER_S)
        check(next(watch).status, SERVING, f"Watch {name!r}")
        watch.cancel()
    # Of a watch the protocol expects SERVICE_UNKNOWN; the library that answers here says the same of both.
    for ask in (stub.Check, lambda request, timeout: next(stub.Watch(request, timeout=timeout))):
        nobody = refusal(lambda: ask(asked("nobody"), timeout=ANSWER_S))
        check(nobody.code(), grpc.StatusCode.NOT_FOUND, "a service that is not there")


def described(channel):
    """The service of jobs, by reflection alone."""
    database = ProtoReflectionDescriptorDatabase(channel)
    names = set(database.get_services())
    lacking = {JOBS, "firn.jobs.v1.Workers", "grpc.health.v1.Health"} - names
    check(lacking, set(), f"services that are not in {sorted(names)}")
    return DescriptorPool(database).FindServiceByName(JOBS)


def methods(service):
    found = {method.name: (method.input_type.name, method.output_type.name) for method in service.methods}
    expected = {name: (f"{name}Request", f"{name}Reply") for name in ("Submit", "Follow", "Cancel", "List")}
    check(found, expected, "methods")


def call(channel, service, name, token, **fields):
    method = service.methods_by_name[name]
    request, reply = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    ask = channel.unary_unary(f"/{JOBS}/{name}", request.SerializeToString, reply.FromString)
    metadata = [] if token is None else [("authorization", f"Bearer {token}")]
    return ask(request(**fields), timeout=ANSWER_S, metadata=metadata)


def listed(channel, service, token, worker):
    found = call(channel, service, "List", token)
    check([row.name for row in found.workers], [worker], "workers")
    check((found.workers[0].slots, found.workers[0].is_draining), (2, False), "what the worker is")
    key = {"client": b"sixteen bytes it", "number": 7}
    check(call(channel, service, "Cancel", token, key=key).found, False, "a job that is not there")


def refused(channel, service, token):
    for name, wrong, said in (("List", None, "wants a token"), ("Cancel", "x", "is not this control plane's")):
        error = refusal(lambda: call(channel, service, name, wrong))
        check(error.code(), grpc.StatusCode.UNAUTHENTICATED, f"{name} with {wrong!r}")
        check(said in error.details() and "--control-plane-token-file" in error.details(), True, error.details())
    unsaid = refusal(lambda: call(channel, service, "Submit", token))
    check(unsaid.code(), grpc.StatusCode.INVALID_ARGUMENT, "a job of which nothing is said")
    newer = refusal(lambda: call(channel, service, "Submit", token, versions={"min": 1000, "max": 1001}))
    check(newer.code(), grpc.StatusCode.FAILED_PRECONDITION, "a version that comes later")


def main():
    target, token, worker = sys.argv[1:4]
    if len(sys.argv) == 7:
        ca, certificate, key = (open(name, "rb").read() for name in sys.argv[4:7])
        channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(ca, key, certificate))
        way = "encrypted"
    else:
        channel, way = grpc.insecure_channel(target), "plain"
    with channel:
        say = lambda part: print(f"grpcio {grpc.__version__}, {way}: {part} as expected")
        health(channel)
        say("health")
        service = described(channel)
        methods(service)
        say("reflection")
        listed(channel, service, token, worker)
        say("calls")
        refused(channel, service, token)
        say("refusals")


if __name__ == "__main__":
    main()
