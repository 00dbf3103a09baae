# warpschool in a container: the course, its compiler and JupyterLab.
#
#   docker build --tag warpschool .                              without a GPU: kernels run on the simulator
#   docker buildx build --platform linux/amd64,linux/arm64 --tag warpschool .        for both kinds of processor
#   docker build --tag warpschool:gpu --target gpu .             with CuPy: the same kernels run on the GPU
#   docker run --rm -it -p 127.0.0.1:8888:8888 -v warpschool:/home/student/course warpschool
#   docker run --rm -it --gpus all -p 127.0.0.1:8888:8888 -v warpschool:/home/student/course warpschool:gpu
#
# All packages have wheels for x86-64 and for 64-bit ARM: Apple silicon, Grace, Raspberry Pi 5. scripts/release.py --image
# builds both and says what it could not.
#
# The volume keeps your work. Without a command JupyterLab opens on it; any other command runs instead:
#   docker run --rm -it warpschool warpschool doctor

FROM python:3.12-slim AS base
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /opt/warpschool
COPY pyproject.toml constraints.txt hatch_build.py README.md LICENSE ./
COPY src src
COPY labs labs
COPY kernels kernels
COPY solutions solutions
COPY grader grader
COPY benchmarks/results benchmarks/results
COPY docs/learn docs/learn
COPY docs/images/learn docs/images/learn
COPY tests/specimens tests/specimens
# Lab 14 and a student's own programs are built by nvcc, which is a package, and by the system's g++.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ make \
    && rm -rf /var/lib/apt/lists/* \
    && pip install --constraint constraints.txt '.[lab,programs]' \
    && useradd --create-home student \
    && install --directory --owner=student /home/student/course
USER student
WORKDIR /home/student
EXPOSE 8888
CMD ["warpschool", "lab", "/home/student/course", "--no-browser", "--port=8888", "--ip=0.0.0.0"]

# The driver comes from the host (docker run --gpus all); CUDA's libraries are packages.
FROM base AS gpu
USER root
RUN pip install --constraint /opt/warpschool/constraints.txt '/opt/warpschool[cuda13]'
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER student

# What `docker build` makes without --target.
FROM base AS cpu
