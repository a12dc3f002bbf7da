import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.codehaus.mojo.animal_sniffer.SignatureBuilder;
import org.codehaus.mojo.animal_sniffer.SignatureChecker;
import org.codehaus.mojo.animal_sniffer.logging.Logger;

/**
 * Usage: CheckApi PUBLIC.signature MINSDK-FRAMEWORK.jar ALLOWED.txt CLASSES...
 *
 * <p>Two questions about each reference of the classes: is it in the framework of minSdk (else an old device throws
 * NoSuchMethodError), and is it public (else a device refuses it, or Google Play does)? The signature knows what was
 * public in API 26; what became public later must be named in ALLOWED.txt, as must what is newer than minSdk and
 * guarded by a check of SDK_INT.
 */
class CheckApi {
    /** Not the platform's. Everything else (android, java, org.json, ...) is checked. */
    private static final List<String> OURS = List.of(
            "androidx.*", "com.google.*", "com.sun.jna.*", "dev.pilothouse.*", "kotlin.*", "kotlinx.*");

    public static void main(String[] args) throws Exception {
        Set<String> allowed = new HashSet<>();
        for (String line : Files.readAllLines(Path.of(args[2]))) {
            String entry = line.replaceAll("#.*", "").strip();
            if (!entry.isEmpty()) allowed.add(entry);
        }
        File[] classes = Arrays.stream(args, 3, args.length).map(File::new).toArray(File[]::new);

        File minSdk = File.createTempFile("minsdk", ".signature");
        minSdk.deleteOnExit();
        Collector ignored = new Collector();
        SignatureBuilder builder = new SignatureBuilder(new FileOutputStream(minSdk), ignored);
        builder.process(new File(args[1]));
        builder.close();

        // android-all holds no java.*: the public signature checks those.
        List<String> notJava = new ArrayList<>(OURS);
        notJava.addAll(List.of("java.*", "javax.*"));
        Set<String> tooNew = undefined(minSdk, notJava, classes);
        Set<String> notPublic = undefined(new File(args[0]), OURS, classes);
        Set<String> unused = new TreeSet<>(allowed);
        unused.removeIf(entry -> tooNew.contains(entry) || notPublic.contains(entry));
        tooNew.removeAll(allowed);
        notPublic.removeAll(allowed);

        tooNew.forEach(r -> System.out.println("newer than minSdk: " + r));
        notPublic.forEach(r -> System.out.println("hidden, or public after API 26 and not in the list: " + r));
        unused.forEach(r -> System.out.println("in the list and not used: " + r));
        int problems = tooNew.size() + notPublic.size() + unused.size();
        System.out.println(problems == 0 ? "API check: fine, " + allowed.size() + " allowed by the list" : "API check: " + problems + " problems");
        System.exit(problems == 0 ? 0 : 1);
    }

    private static Set<String> undefined(File signature, List<String> ignore, File[] classes) throws IOException {
        Collector found = new Collector();
        SignatureChecker checker = new SignatureChecker(new FileInputStream(signature), new HashSet<>(ignore), found);
        checker.setSourcePath(List.of());
        for (File folder : classes) checker.process(folder);
        return found.references;
    }

    private static class Collector implements Logger {
        final Set<String> references = new TreeSet<>();

        @Override public void error(String message) {
            int at = message.indexOf("Undefined reference: ");
            if (at >= 0) references.add(message.substring(at + "Undefined reference: ".length()).strip());
        }
        @Override public void error(String message, Throwable t) { throw new IllegalStateException(message, t); }
        @Override public void warn(String message) { }
        @Override public void warn(String message, Throwable t) { }
        @Override public void info(String message) { }
        @Override public void info(String message, Throwable t) { }
        @Override public void debug(String message) { }
        @Override public void debug(String message, Throwable t) { }
    }
}
