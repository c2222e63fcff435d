# SPDX-License-Identifier: GPL-3.0-or-later
# The SIP library, built for 512 legs: the published wheel holds 4.
FROM python:3.11-slim-bookworm AS pjsua2
RUN apt-get update \
 && apt-get install -y --no-install-recommends g++ make patch dpkg-dev swig \
    libsrtp2-dev libspeexdsp-dev libspeex-dev libopus-dev libssl-dev uuid-dev
COPY scripts scripts
RUN PYTHON=/usr/local/bin/python scripts/build-pjsua2 --out /wheels

FROM python:3.11-slim-bookworm

RUN apt-get update \
 && apt-get install -y --no-install-recommends ffmpeg libsrtp2-1 libspeexdsp1 libopus0 libssl3 libuuid1 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --create-home gateway \
 && install -d -o gateway -g gateway /models && install -d -o gateway -g gateway -m 700 /state

WORKDIR /app
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY gateway gateway
COPY config config
COPY dialplans dialplans
COPY models models
COPY --from=pjsua2 /wheels /wheels
RUN pip install --no-cache-dir -r requirements.lock && pip install --no-cache-dir --no-deps /wheels/*.whl .

USER gateway
ENV GATEWAY__MODELS__DIR=/models
VOLUME ["/models", "/state"]
# Models are not part of the image: the first start fetches and verifies them into the volume.
CMD ["sh", "-c", "gateway models pull && exec gateway serve --config /app/config/gateway.yaml"]
