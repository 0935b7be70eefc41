# One image, every mode: the API by default, `worker`, `install` and every other command by name.
# docs/deploy.md says how to add your handlers.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY sql sql
COPY pybatchq pybatchq
RUN --mount=type=cache,target=/root/.cache/pip \
    pip wheel --no-deps --wheel-dir /dist .

FROM python:${PYTHON}-slim
LABEL org.opencontainers.image.title="batchq" \
      org.opencontainers.image.description="A durable job queue that lives inside PostgreSQL" \
      org.opencontainers.image.licenses="MIT"

# In every mode /health, /ready and /metrics are on port 8080. psycopg brings an OpenSSL of its own,
# which finds the certificate authorities (sslrootcert=system) by SSL_CERT_FILE only.
ENV PYTHONUNBUFFERED=1 \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    BATCHQ_HOST=0.0.0.0 \
    BATCHQ_PORT=8080 \
    BATCHQ_HEALTH_HOST=0.0.0.0 \
    BATCHQ_HEALTH_PORT=8080

RUN --mount=type=bind,from=build,source=/dist,target=/dist \
    --mount=type=cache,target=/root/.cache/pip \
    test -s "$SSL_CERT_FILE" \
    && pip install --root-user-action=ignore /dist/*.whl \
    && groupadd --gid 10001 batchq \
    && useradd --uid 10001 --gid batchq --no-create-home --home-dir /app \
        --shell /usr/sbin/nologin batchq

# By number, so that Kubernetes can see that it is not root. Handlers are imported from /app.
USER 10001:10001
WORKDIR /app
EXPOSE 8080

# Without a shell or curl, which the image need not have, and past any proxy.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import http.client, os; \
c = http.client.HTTPConnection('127.0.0.1', int(os.environ['BATCHQ_HEALTH_PORT']), timeout=4); \
c.request('GET', '/health'); raise SystemExit(c.getresponse().status != 200)"]

# No CMD: without arguments MODE chooses (api, worker), and api is its default. In exec form, so that
# signals reach Python.
ENTRYPOINT ["python", "-m", "pybatchq"]
