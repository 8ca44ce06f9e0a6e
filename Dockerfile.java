# A cluster on a real ZooKeeper, a process for each node, with Java for ZooKeeper and Spark (1.1 GB):
#   docker build -t kafka-actors-java -f Dockerfile.java .
#   docker run --rm --network host kafka-actors-java
FROM python:3.13-bookworm AS build
WORKDIR /source
COPY . .
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim-bookworm
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
RUN python -m pip install --no-cache-dir "$(ls /wheels/kafka_actors-*.whl)[all]"
RUN useradd --create-home kafka && mkdir /data && chown kafka /data
USER kafka
VOLUME ["/data"]
ENTRYPOINT ["kafka-actors"]
CMD ["up", "--dir", "/data/cluster"]
