# Sourced by the other scripts: where things are, and class paths that Maven resolves.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
aars=$root/androidx-aars/target
min_sdk=31
target_sdk=36
package=dev.pilothouse.android

die() { echo "$*" >&2; exit 1; }

# tool_classpath NAME: the class path of a profile of tools/pom.xml, kept until the pom changes. MVN_FLAGS go to Maven (-o).
tool_classpath() {
    local file=$root/tools/target/$1.cp
    if [ ! "$file" -nt "$root/tools/pom.xml" ]; then
        mkdir -p "$root/tools/target"
        mvn -q -B -Dstyle.color=never ${MVN_FLAGS-} -f "$root/tools/pom.xml" "-P$1" dependency:build-classpath "-Dmdep.outputFile=$file" >&2
    fi
    cat "$file"
}

# app_classpath compile|runtime: one path a line, reactor modules as target/classes ("compile" is Maven's word for
# runtime and provided). Written by `mvn test-compile`, app/pom.xml.
app_classpath() {
    local file=$root/app/target/classpath-$1
    [ -f "$file" ] || die "run mvn test-compile first"
    tr ':' '\n' < "$file"
}

# aars_jar: the classes of the AARs that ship, as one jar for tools that take no folder.
aars_jar() {
    local jar=$aars/classes.jar
    [ "$jar" -nt "$aars/unpacked.stamp" ] || { rm -f "$jar"; (cd "$aars/classes" && zip -q -r -X -D "$jar" . -x 'META-INF/maven/*'); }
    echo "$jar"
}

# java.* for R8 and D8: android-all has none.
jdk_home() { java -XshowSettings:properties -version 2>&1 | sed -n 's/ *java.home = //p'; }

# aar_dirs KIND...: the folder of every unpacked AAR of these kinds (main, test).
aar_dirs() { local kind; for kind; do find "$aars/unpacked/$kind" -mindepth 1 -maxdepth 1 -type d | sort; done; }
manifest_package() { grep -oE 'package="[^"]+"' "$1/AndroidManifest.xml" | head -1 | cut -d'"' -f2; }
