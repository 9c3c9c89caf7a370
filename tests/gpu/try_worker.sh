#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the NCCL worker and tries it without the supervisor on a machine with one GPU: one rank, then several ranks on the
# one GPU under CUDA MPS (a NCCL_HOSTID each makes NCCL take them for different hosts). Needs CUDA, NCCL and python3.
#   tests/gpu/try_worker.sh [BUILD_FOLDER]
# shellcheck disable=SC2086 # $some holds several words
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:-/tmp/nccl-tune-gpu}
worker=$build/nccl-tune-worker-nccl
failed=0
export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo}

# try SECONDS EXPECTED_STATUS TITLE -- ARGUMENTS of drive_worker.py
try() {
    local limit=$1 expected=$2 title=$3 start=$SECONDS status
    shift 4
    echo "== $title"
    timeout -k 5 "$limit" python3 tests/gpu/drive_worker.py "$worker" "$@"
    status=$?
    [ "$status" = "$expected" ] || { failed=$((failed + 1)); echo "   NOT AS EXPECTED: status $status, expected $expected"; }
    echo "   $((SECONDS - start)) s"
}

make -j"$(nproc)" O="$build" NVCC_ARCH=-gencode=arch=compute_90,code=sm_90 nccl-worker || exit 1
echo "built in $SECONDS s"

try 60 0 'one rank, everything' -- --iterations 2 --ops sum,prod,max,min
# NCCL 2.28.3's kernel for one rank (src/device/onerank.cu) drops the last elements of sizes that its blocks do not divide
# and knows no fp8; so 4096 bytes, and the other types.
try 60 0 'one rank, scalars' -- --iterations 2 --ops avg,mulsum --bytes 4096 --collectives all_reduce,reduce,reduce_scatter \
    --types int8,uint8,int32,uint32,int64,uint64,half,float,double,bfloat16
try 60 0 'one rank, speed and the cost of verification' -- -v --collectives all_reduce,all_gather --ops sum --iterations 20 \
    --types float,half,f8e4m3,double --bytes 8,1048576,4294967296
try 60 2 'no such device' -- --device 7

export CUDA_MPS_PIPE_DIRECTORY=/tmp/nccl-tune-mps CUDA_MPS_LOG_DIRECTORY=/tmp/nccl-tune-mps-log
mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
nvidia-cuda-mps-control -d && trap 'echo quit | nvidia-cuda-mps-control' EXIT

try 90 0 'four ranks, everything' -- -n 4 --host-ids --iterations 2
try 60 0 'three ranks: averages that are not exact, all roots' -- -n 3 --host-ids --iterations 2 --bytes 65552 --all-roots
try 40 0 'two ranks, times' -- -v -n 2 --host-ids --iterations 20 --types float --ops sum --bytes 8,2097152
for element in 0 -1 1000; do
    try 40 0 "a flipped element at $element, two ranks" -- -n 2 --host-ids --iterations 1 --bytes 65552 --fault flip \
        --fault-rank 1 --fault-element $element
done
try 40 0 'a flipped element as told' -- -v -n 3 --host-ids --iterations 1 --types float,f8e5m2,int64 --ops sum,avg \
    --collectives all_reduce,alltoall --bytes 65552 --fault flip --fault-rank 2 --fault-element 77
try 60 0 'four runs of one input, four ranks, everything' -- -n 4 --host-ids --iterations 1 --check 0 --bytes 8,65552 --repeat 4
try 40 0 'the last run spoiled, as told' -- -v -n 3 --host-ids --iterations 1 --types float,f8e5m2,int8,double --ops sum,avg \
    --collectives all_reduce,reduce,alltoallv --bytes 65552 --repeat 3 --fault waver --fault-rank 2 --fault-element -1
some='--types float,half --ops sum,mulsum --bytes 0,4096,65552'
try 40 0 'graphs' -- -n 2 --host-ids $some --graph 3 --repeat 3
for mode in 1 2 3; do
    try 40 0 "blocking $mode, per iteration, aggregation" -- -n 2 --host-ids $some --blocking $mode --per-iteration 1 \
        --aggregate $((mode == 3 ? 3 : 1)) --cpu-time 1
done
for mode in 1 2; do try 40 0 "registration $mode" -- -n 2 --host-ids $some --registration $mode; done
try 40 0 'buffers off by an element' -- -n 2 --host-ids $some --unalign 1
try 60 0 'two groups of two ranks, everything' -- -n 4 --groups 2 --host-ids --iterations 2 --per-iteration 1
try 40 0 'groups of three and of two ranks' -- -n 5 --groups 2 --host-ids $some --collectives all_reduce,reduce,alltoall,alltoallv,sendrecv
for mode in 1 2; do
    try 40 0 "groups and registration $mode" -- -n 4 --groups 2 --host-ids $some --collectives all_reduce,all_gather --registration $mode
done
try 40 0 'groups and graphs' -- -n 4 --groups 2 --host-ids $some --collectives all_reduce,alltoall --graph 3
try 40 0 'a flipped element in the second group' -- -n 4 --groups 2 --host-ids --iterations 1 --bytes 65552 --fault flip --fault-rank 3
try 40 0 'the null stream' -- -n 2 --host-ids $some --null-stream 1 --per-iteration 1
try 40 0 'memory' -- -v -n 2 --host-ids --collectives all_reduce --types float --ops sum --bytes 1048576 --memory 1
try 40 0 'two unique ids' -- -n 2 --host-ids $some --ids 2
echo quit | nvidia-cuda-mps-control
trap - EXIT
unset CUDA_MPS_PIPE_DIRECTORY

# Without MPS, whose server does not survive a client that is killed at work.
try 30 2 'a rank that hangs, and a timeout' -- -n 2 --host-ids $some --bytes 4096 --fault hang --timeout-ms 2000 --patience 10
try 30 2 'a rank that crashes' -- -n 2 --host-ids $some --bytes 4096 --fault crash --timeout-ms 5000 --patience 10

if command -v compute-sanitizer >/dev/null; then
    echo '== memory checker'
    printf '#!/bin/sh\nexec env NCCL_CUMEM_ENABLE=0 compute-sanitizer --report-api-errors no --error-exitcode 9 --log-file /tmp/nccl-tune-sanitizer.log %s\n' "$worker" >/tmp/checked-worker
    chmod +x /tmp/checked-worker
    timeout -k 5 60 python3 tests/gpu/drive_worker.py /tmp/checked-worker --iterations 1 --bytes 4096 --ops sum,prod
    tail -30 /tmp/nccl-tune-sanitizer.log
fi
echo "total $SECONDS s, $failed not as expected"
[ "$failed" = 0 ]
