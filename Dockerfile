# SPDX-License-Identifier: GPL-3.0-or-later
FROM python:3.11-slim-bookworm

RUN apt-get update \
 && apt-get install -y --no-install-recommends ffmpeg \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --create-home gateway

WORKDIR /app
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY gateway gateway
COPY config config
COPY dialplans dialplans
COPY models models
RUN pip install --no-cache-dir -r requirements.lock && pip install --no-cache-dir --no-deps .

USER gateway
ENV GATEWAY__MODELS__DIR=/models
VOLUME /models
# Models are not part of the image: the first start fetches and verifies them into the volume.
CMD ["sh", "-c", "gateway models pull && exec gateway serve --config /app/config/gateway.yaml"]
