# Set-up shared by ./demo and ./test; read with `.`, never run. POSIX sh, because it must work on a
# machine that has neither make, pip nor venv yet. The caller sets `here` to the checkout and then
# calls `become_root "$@"` and `set_up`; $extras may name packages that it would like to have, and
# $groups the extras of pyproject.toml to install beside what a run needs ("[test]"), and $optional an
# extra that it would like to have ("[torch]"). INA_COMPILED names a folder that may have a wheel of
# compiled functions (tools/compiled.py), in place of dist/.
#
# Five things are made: system packages (apt), the environment .venv, the link /usr/local/bin/ina, warm
# compile caches, and JSON schemas for editors. Each is looked at before it is made, and a stamp in .venv, keyed by everything that
# the result depends on, lets the next call skip even the looking. A .venv without any stamp is of a
# set-up that did not end, and is made anew. Deleting .venv and the link undoes it all.

system_python=/usr/bin/python3
environment=$here/.venv
python=$environment/bin/python
link=/usr/local/bin/ina  # in a folder of the PATH that sudo sets
wheels=${INA_COMPILED:-$here/dist}
log=  # a file: what the step under way has printed
below="--editable ./p4engine --editable ./p4fabric"  # the distributions that the testbed imports
# python3 from the system because Mininet is installed for that one; net-tools because Mininet calls
# ifconfig, and ping because its pingAll does; ethtool for users who look at offload settings;
# libseccomp2 and bubblewrap confine what the labs grade.
packages="python3 python3-venv mininet gcc libc6-dev iproute2 iputils-ping net-tools ethtool libseccomp2 bubblewrap"

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "error: $*"
    exit 2
}

# Networks need root. Ask sudo for it where the caller is not root yet.
become_root() {
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null 2>&1 ||
            fail "$(basename "$0") builds networks and needs root, and there is no sudo here: run it as root"
        exec sudo ${INA_COMPILED:+"INA_COMPILED=$INA_COMPILED"} -- "$0" "$@"
    fi
    # Where sudo keeps the user's HOME, root's caches must not land in it.
    if [ -n "${HOME:-}" ] && [ "$(stat -c %u "$HOME" 2>/dev/null)" != 0 ]; then
        HOME=$(getent passwd 0 | cut -d: -f6)
        export HOME
    fi
    clean_up_at_exit
}

clean_up_at_exit() {
    trap '[ -z "$log" ] || rm -f "$log"; hand_over' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

# Under sudo, what root made in the user's checkout becomes the user's, whichever way we end.
hand_over() {
    [ -n "${SUDO_UID:-}" ] && [ "$SUDO_UID" != 0 ] || return 0
    [ "$(stat -c %u "$here")" = "$SUDO_UID" ] || return 0
    find "$here" -user 0 -exec chown -h "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" {} + 2>/dev/null || true
}

missing_packages() {
    for package in "$@"; do
        dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed' ||
            printf '%s ' "$package"
    done
}

install_packages() {
    if ! command -v apt-get >/dev/null 2>&1; then
        # Not Debian or Ubuntu: nothing can be installed for the user, but it may all be there.
        for command in "$system_python" mnexec cc ip ifconfig; do
            command -v "$command" >/dev/null 2>&1 ||
                fail "$command is missing, and without apt-get it cannot be installed from here"
        done
        return 0
    fi
    # shellcheck disable=SC2086
    missing=$(missing_packages $packages)
    [ -n "$missing" ] || return 0
    say "set-up: installing $missing"
    DEBIAN_FRONTEND=noninteractive
    export DEBIAN_FRONTEND
    apt="apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0"
    # The package lists are fetched only where the ones at hand do not do. What an interrupted dpkg has
    # left half installed is finished first.
    # shellcheck disable=SC2086
    $apt install --no-install-recommends $missing >"$log" 2>&1 ||
        { dpkg --configure -a && $apt update && $apt install --no-install-recommends $missing; } >"$log" 2>&1 ||
        { tail -n 15 "$log" >&2; fail "apt-get could not install: $missing"; }
}

# What the caller names in $extras and $optional: without it some tests are skipped, with the reason, so
# a machine that cannot have it is no failure.
install_extras() {
    if [ -n "${optional:-}" ]; then
        say "set-up: installing the extra $optional"
        rm -f "$environment"/.setup-stamp*
        # shellcheck disable=SC2086
        timeout 900 "$python" -m pip install --quiet --disable-pip-version-check \
            --no-input $below --editable ".$optional" --editable ./labs >/dev/null 2>&1 ||
            say "set-up: could not install $optional; what needs it is skipped"
        write_stamps
    fi
    command -v apt-get >/dev/null 2>&1 || return 0
    # shellcheck disable=SC2086
    for package in $(missing_packages $extras); do
        say "set-up: installing $package"
        DEBIAN_FRONTEND=noninteractive timeout 300 apt-get -qq -y -o DPkg::Lock::Timeout=300 \
            -o Dpkg::Use-Pty=0 install --no-install-recommends "$package" >/dev/null 2>&1 ||
            say "set-up: could not install $package; what needs it is skipped"
    done
}

make_environment() {
    version='import sys; print(*sys.version_info[:2])'
    if ! ls "$environment"/.setup-stamp* >/dev/null 2>&1 ||
        [ "$("$python" -c "$version" 2>/dev/null)" != "$("$system_python" -c "$version")" ]; then
        say "set-up: making the environment .venv"
        "$system_python" -m venv --clear --system-site-packages "$environment" >"$log" 2>&1 ||
            { tail -n 15 "$log" >&2; fail "$system_python could not make .venv"; }
    fi
    rm -f "$environment"/.setup-stamp*  # until all is installed; half a package looks like a whole one
    PIP_ROOT_USER_ACTION=ignore
    export PIP_ROOT_USER_ACTION
    say "set-up: installing Python packages into .venv (up to a minute or two the first time)"
    wheel=$(compiled_wheel)
    if [ -n "$wheel" ]; then
        with_uv "$wheel" >"$log" 2>&1 && return 0
        say "set-up: $wheel is not used, because it or the versions that it needs cannot be installed"
    fi
    { with_uv || with_pip; } >"$log" 2>&1 ||
        { tail -n 15 "$log" >&2; fail "pip could not install the Python packages (see above)"; }
}

# The newest wheel of compiled functions for this Python and machine; nothing where there is none, or
# where others could have written it. Whether its functions are of these sources is found out later.
compiled_wheel() {
    tag=$("$system_python" -c 'import sys; print("cp{0}{1}-cp{0}{1}".format(*sys.version_info))')-linux_$(uname -m)
    newest=$(ls -t "$wheels"/ina_testbed_compiled-*-"$tag".whl 2>/dev/null | head -n 1)
    [ -n "$newest" ] || return 0
    open=$("$system_python" -I "$here/p4fabric/src/p4fabric/base/linux/writers.py" "$newest") || open=$newest
    [ -z "$open" ] || { say "set-up: $newest is not used, because others could have written $open"; return 0; }
    printf '%s\n' "$newest"
}

# The command `ina` in every shell and under sudo. What is there already stays, unless it is a link that
# leads nowhere, as of a checkout that has been deleted.
make_link() {
    [ "$(id -u)" = 0 ] || return 0
    [ -e "$link" ] || ln -sfn "$environment/bin/ina" "$link" 2>/dev/null || true
    [ "$(readlink -f "$link")" = "$(readlink -f "$environment/bin/ina")" ] ||
        say "set-up: $link is not of this checkout and stays as it is; here the command is $environment/bin/ina"
}

with_pip() {
    # shellcheck disable=SC2086
    "$python" -m pip install --quiet --disable-pip-version-check --no-input \
        $below --editable ".${groups:-}" --editable ./labs
}

# uv does the same in a fraction of the time. It does not read pip's configuration, so it gets the
# index from there; where it cannot be had or does not succeed, pip installs everything.
with_uv() {
    "$python" -m pip install --quiet --disable-pip-version-check --no-input uv || return 1
    index=$("$python" -m pip config get global.index-url 2>/dev/null || true)
    # shellcheck disable=SC2086
    "$environment/bin/uv" pip install --quiet --python "$python" --compile-bytecode \
        ${index:+--default-index "$index"} $below --editable ".${groups:-}" --editable ./labs "$@"
}

# What is compiled is kept per user, so its stamp is, too.
warm_caches() {
    warm=$(find "$here/testbed" "$here/p4fabric/src" "$here/p4engine/src" "$here/p4" \( -name '*.py' -o -name '*.[ch]' -o -name '*.p4' \) \
        -exec cat {} + 2>/dev/null | sha256sum | cut -c1-32)
    # The tests need more than the demo; everything else is compiled when it is first used.
    everything=
    [ -z "${groups:-}" ] || everything=--all
    stamp=$environment/.warm-$(id -u)
    [ "$(cat "$stamp$everything" 2>/dev/null)" = "$warm" ] && return 0
    say "set-up: compiling switch programs and protocols"
    # shellcheck disable=SC2086
    "$python" -m testbed.cli.warm $everything || fail "could not compile (see above)"
    printf '%s\n' "$warm" >"$stamp"
    printf '%s\n' "$warm" >"$stamp$everything"
}

# The JSON schemas that the first lines of experiments/*.yaml name, for editors. They are made anew when a
# source is newer, and when they are missing, of which find complains.
make_schemas() {
    [ -n "$(find testbed topos p4fabric/src -name '*.py' -newer experiments/schema/network.json 2>&1)" ] || return 0
    "$python" run.py schema -o experiments/schema || fail "could not make experiments/schema (see above)"
}

# Everything that the environment depends on; a change makes the next call look again.
set_up_inputs() {
    cat "$here/setup.sh" "$here/pyproject.toml" "$here"/p4*/pyproject.toml "$here/labs/pyproject.toml" |
        sha256sum | cut -c1-32
    printf '%s\n%s\n' "$(readlink -f "$system_python")" "$here"
    stat -c '%n %s %Y' "$wheels"/ina_testbed_compiled-*.whl 2>/dev/null || true
}

write_stamps() {
    set_up_inputs >"$environment/.setup-stamp"
    set_up_inputs >"$environment/.setup-stamp${groups:-}"
}

set_up() {
    # Python imports from the current folder, which may be anybody's.
    cd "$here"
    # Two set-ups of one checkout wait for each other; the lock is the folder itself.
    exec 9<"$here"
    ! command -v flock >/dev/null 2>&1 || flock 9
    # What was installed with the groups serves those who need none.
    stamp=$environment/.setup-stamp
    if [ "$(cat "$stamp${groups:-}" 2>/dev/null)" != "$(set_up_inputs)" ]; then
        log=$(mktemp)
        install_packages
        make_environment
        make_link
        rm -f "$log"
        log=
        write_stamps
    fi
    stamp=$environment/.extras-stamp${optional:-}
    if [ -n "${extras:-}" ] && [ "$(cat "$stamp" 2>/dev/null)" != "$extras" ]; then
        install_extras
        printf '%s\n' "$extras" >"$environment/.extras-stamp"
        printf '%s\n' "$extras" >"$stamp"
    fi
    warm_caches
    make_schemas
    ! command -v flock >/dev/null 2>&1 || flock -u 9
    exec 9<&-
}
