package fileowner

import "io/fs"

// Mounted reports whether a file is a secret that was mounted for a process with the user id uid.
// Kubernetes mounts one with an fsGroup so: the file belongs to root, the process does not, and
// besides root only the group may read it. Such a process can read the file only as a member of the
// group, and cannot change the mode.
func Mounted(info fs.FileInfo, uid int) bool {
	owner, ok := Of(info)
	return ok && owner == 0 && uid > 0 && info.Mode().Perm()&0o077 == 0o040
}
