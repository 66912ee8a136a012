"""Installs what a package-lock.json names, once, as a repository.

The repository holds `installed`, a file that changes with the lock file and the
version of Node, and beside it `node_modules`. Actions take `installed` as their
input and find the rest beside it, so that neither thousands of files are
inputs, nor does a change of the sources fetch anything.

Where there is no npm, or the packages cannot be had, `installed` begins with
"absent" and says why: what is built from it must then do without. Bazel keeps
that, too, until `bazel sync --only=REPOSITORY`; tests/run.sh does it.
"""

_TRIES = 3

def _absent(ctx, reason):
    # buildifier: disable=print
    print("npm packages are absent: " + reason)
    ctx.file(
        "installed",
        "absent: %s\nWhen that is put right: bazel sync --only=%s\n" % (reason, ctx.name),
    )

def _npm_packages_impl(ctx):
    ctx.file("BUILD", 'exports_files(["installed"], visibility = ["//visibility:public"])\n')
    lock = ctx.read(ctx.attr.lock)
    ctx.file("package-lock.json", lock)
    ctx.file("package.json", ctx.read(ctx.attr.package))
    npm = ctx.which("npm")
    node = ctx.which("node")
    if not npm or not node:
        _absent(ctx, "there is no npm (deploy/install_deps.sh installs it)")
        return
    version = ctx.execute([node, "--version"]).stdout.strip()
    result = None
    for _ in range(_TRIES):
        # No package of the lock file needs to run a program of its own to be
        # installed, so none may.
        result = ctx.execute(
            [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"],
            timeout = 600,
        )
        if result.return_code == 0:
            break
    if result.return_code != 0:
        _absent(ctx, "npm ci failed: " + result.stderr.strip()[-400:].replace("\n", " "))
        return
    ctx.file("installed", "node %s\n%s\n" % (version, lock))

npm_packages = repository_rule(
    implementation = _npm_packages_impl,
    attrs = {
        "package": attr.label(mandatory = True, allow_single_file = True),
        "lock": attr.label(mandatory = True, allow_single_file = True),
    },
    environ = ["PATH"],
)
