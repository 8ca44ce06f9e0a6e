# A cluster in one process, with ZooKeeper in memory and without Java:
#   docker build -t kafka-actors .
#   docker run --rm --network host kafka-actors
# Brokers listen on 127.0.0.1:9092 and the following ports of the host, because `up` does.
FROM python:3.13-bookworm AS build
WORKDIR /source
COPY . .
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim-bookworm
COPY --from=build /wheels /wheels
RUN python -m pip install --no-cache-dir /wheels/kafka_actors-*.whl
RUN useradd --create-home kafka && mkdir /data && chown kafka /data
USER kafka
VOLUME ["/data"]
ENTRYPOINT ["kafka-actors"]
CMD ["up", "--zookeeper", "memory", "--dir", "/data/cluster"]
