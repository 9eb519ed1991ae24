# One image for master, workers, headless runs and the mock server.
FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv /opt/llmload
COPY pyproject.toml constraints.txt README.md LICENSE ./
# the libraries first: they change less often than the code
RUN mkdir llmload && echo '__version__ = "0"' > llmload/__init__.py \
    && PIP_CONSTRAINT=constraints.txt /opt/llmload/bin/pip install --no-cache-dir . \
    && rm -rf build llmload *.egg-info
COPY llmload ./llmload
RUN PIP_CONSTRAINT=constraints.txt /opt/llmload/bin/pip install --no-cache-dir --no-deps --force-reinstall .

FROM python:3.11-slim
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin llmload \
    && mkdir -p /app/runs && chown -R llmload:llmload /app
COPY --from=build /opt/llmload /opt/llmload
COPY locustfiles /app/locustfiles
ENV PATH=/opt/llmload/bin:$PATH PYTHONUNBUFFERED=1
WORKDIR /app
USER llmload
# 8089: Locust's web page; 5557: workers to master; 8000: the mock server
EXPOSE 8089 5557 8000
STOPSIGNAL SIGTERM
# a worker has no port of its own: `llmload health` looks whether it is connected to its master
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 CMD ["llmload", "health"]
CMD ["locust", "-f", "locustfiles/chat.py"]
