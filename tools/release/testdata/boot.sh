#!/bin/bash
# Runs the systemd of a Debian root as the first process of new namespaces: boot.sh ROOT CGROUP.
# It has no network except for the loopback interface. It ends with this process.
set -euo pipefail
mkdir -p "$2"
echo $$ >"$2/cgroup.procs"
exec unshare --mount --pid --fork --kill-child=SIGKILL --ipc --uts --net --cgroup --propagation private bash -c '
set -euo pipefail
ip link set lo up
cd "$1"
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs tmpfs sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs dev
mkdir dev/shm dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t devpts devpts dev/pts
ln -s pts/ptmx dev/ptmx
for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
	IFS=: read -r name major minor <<<"$device"
	mknod -m 666 "dev/$name" c "$major" "$minor"
done
mkdir -p old
pivot_root . old
export container=other
exec chroot . /bin/bash -c "umount -l /old; rmdir /old; exec /lib/systemd/systemd --system --show-status=0"
' boot "$1"
